"""All variational weights of a model as one vector, `[W]`."""

import keras
import numpy as np
import tensorflow as tf


class WeightLayout:
    """Order and shapes in which a model's variational weights are flattened.

    Means and untransformed scales of all weights, kernels and biases alike,
    are the two rows of one tensor `params [2, W]`; a prior is a pair of
    vectors `[W]`.

    Args:
        model: Built `keras.Model` (or layer).

    Attributes:
        weights: List of the `VariationalWeight`s, each once.
        size: `W`, the number of scalar weights.

    Raises:
        ValueError: If the model is not built or has no variational layers.
    """

    def __init__(self, model):
        self.weights = _collect(model)
        self._shapes = [tuple(weight.loc.shape) for weight in self.weights]
        self._sizes = [int(np.prod(shape)) for shape in self._shapes]
        self.size = sum(self._sizes)
        self.dtype = self.weights[0].loc.dtype

    def params(self):
        """Returns the model's current means and untransformed scales."""
        return tf.stack(
            [
                self._flatten(weight.loc for weight in self.weights),
                self._flatten(w.untransformed_scale for w in self.weights),
            ]
        )

    def prior(self):
        """Returns the model's current prior, `(loc [W], scale [W])`.

        Raises:
            ValueError: If a weight has no prior.
        """
        for weight in self.weights:
            if weight.regularizer is None:
                raise ValueError(
                    f"Variational weight '{weight.loc.path}' has no prior; "
                    "its layer needs a KL regularizer."
                )
        priors = [weight.prior for weight in self.weights]
        loc, scale = (
            self._flatten(
                keras.ops.broadcast_to(
                    keras.ops.cast(getattr(prior, part), self.dtype), shape
                )
                for prior, shape in zip(priors, self._shapes, strict=True)
            )
            for part in ("loc", "scale")
        )
        return loc, scale

    def assign(self, params):
        """Sets the model's means and untransformed scales.

        Args:
            params: `[2, W]`.
        """
        locs, scales = self.split(params)
        for weight, loc, scale in zip(self.weights, locs, scales, strict=True):
            weight.loc.assign(loc)
            weight.untransformed_scale.assign(scale)

    def split(self, params):
        """Cuts `params [2, W]` into tensors of the weights' shapes.

        Args:
            params: Means and untransformed scales, `[2, W]`.

        Returns:
            locs: List of tensors, one a weight.
            untransformed_scales: List of tensors, one a weight.
        """
        rows = [tf.split(row, self._sizes) for row in tf.unstack(params)]
        return tuple(
            [
                tf.reshape(part, shape)
                for part, shape in zip(row, self._shapes, strict=True)
            ]
            for row in rows
        )

    def _flatten(self, values):
        return tf.concat(
            [
                tf.reshape(keras.ops.cast(value, self.dtype), [-1])
                for value in values
            ],
            axis=0,
        )


def _collect(model):
    if not isinstance(model, keras.layers.Layer):
        raise ValueError(
            f"A model must be a keras.Model. Received: {type(model).__name__}"
        )
    if not model.built:
        raise ValueError(
            f"The model '{model.name}' is not built: call it on data, or "
            "`build` it, first."
        )
    weights, seen = [], set()
    for layer in model._flatten_layers():
        for weight in getattr(layer, "variational_weights", ()):
            if id(weight.loc) not in seen:
                seen.add(id(weight.loc))
                weights.append(weight)
    if not weights:
        raise ValueError(
            f"The model '{model.name}' has no variational layers. Layers with "
            "a posterior come from `tfp_refine.layers`."
        )
    return weights
