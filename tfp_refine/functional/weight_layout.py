"""All variational weights of a model as one vector, `[W]`."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.functional import arrays


class WeightLayout:
    """Order and shapes in which a model's variational weights are flattened.

    Means and untransformed scales of all weights, kernels and biases alike,
    are the two rows of one tensor `params [2, W]`; a prior is a pair of
    vectors `[W]`. With `points`, the model's `D` other trainable weights are
    columns after these, `[2, W + D]`, whose second row means nothing.

    Args:
        model: Built `keras.Model` (or layer).
        points: Whether to include the trainable weights without a posterior;
            what priors learn is never included. Defaults to `False`.

    Attributes:
        weights: List of the `VariationalWeight`s, each once.
        points: List of the other `keras.Variable`s that are included.
        size: `W`, the number of scalar weights with a posterior.

    Raises:
        ValueError: If the model is not built, has no variational layers, or
            posteriors that are not mean-field.
    """

    def __init__(self, model, points=False):
        self.weights = variational_weights(model)
        _check_family(self.weights)
        self.points = _collect_points(model, self.weights) if points else []
        self._shapes = [tuple(weight.loc.shape) for weight in self.weights]
        self._sizes = [int(np.prod(shape)) for shape in self._shapes]
        self.size = sum(self._sizes)
        self.dtype = self.weights[0].loc.dtype

    def params(self):
        """Returns the current values, `[2, W]`, or `[2, W + D]`."""
        locs = [weight.loc for weight in self.weights]
        scales = [weight.untransformed_scale for weight in self.weights]
        return tf.stack(
            [
                self._flatten([*locs, *self.points]),
                self._flatten(
                    [*scales, *map(keras.ops.zeros_like, self.points)]
                ),
            ]
        )

    def prior(self):
        """Returns the model's current prior, `(loc [W], scale [W])`.

        Raises:
            ValueError: If a weight has no prior, or one that is not Gaussian.
        """
        priors = [_prior(weight) for weight in self.weights]
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
        """Sets the model's means, untransformed scales and points.

        Args:
            params: As `params()` returns them.
        """
        locs, scales = self.split(params)
        for weight, loc, scale in zip(self.weights, locs, scales, strict=True):
            weight.loc.assign(loc)
            weight.untransformed_scale.assign(scale)
        for variable, value in zip(
            self.points, self.split_points(params), strict=True
        ):
            variable.assign(value)

    def split(self, params):
        """Cuts `params` into tensors of the weights' shapes.

        Args:
            params: Means and untransformed scales, `[2, W]` or `[2, W + D]`.

        Returns:
            locs: List of tensors, one a weight.
            untransformed_scales: List of tensors, one a weight.
        """
        if self.points:
            params = params[:, : self.size]
        rows = [tf.split(row, self._sizes) for row in tf.unstack(params)]
        return tuple(
            [
                tf.reshape(part, shape)
                for part, shape in zip(row, self._shapes, strict=True)
            ]
            for row in rows
        )

    def split_points(self, params):
        """Cuts the points out of `params`.

        Args:
            params: `[2, W + D]`.

        Returns:
            points: List of tensors, of the shapes and dtypes of `points`.
        """
        if not self.points:
            return []
        shapes = [tuple(variable.shape) for variable in self.points]
        parts = tf.split(
            params[0, self.size :], [int(np.prod(shape)) for shape in shapes]
        )
        return [
            tf.cast(tf.reshape(part, shape), variable.dtype)
            for part, shape, variable in zip(
                parts, shapes, self.points, strict=True
            )
        ]

    def point_penalty(self, params):
        """Computes what the points' own Keras regularizers add to a loss.

        Args:
            params: `[2, W + D]`.

        Returns:
            penalty: Scalar.
        """
        return sum(
            (
                tf.cast(variable.regularizer(value), params.dtype)
                for variable, value in zip(
                    self.points, self.split_points(params), strict=True
                )
                if variable.regularizer is not None
            ),
            start=tf.zeros([], params.dtype),
        )

    def _flatten(self, values):
        return tf.concat(
            [
                tf.reshape(keras.ops.cast(value, self.dtype), [-1])
                for value in values
            ],
            axis=0,
        )


def variational_weights(model):
    """Finds a model's weights with a posterior.

    Args:
        model: Built `keras.Model` (or layer).

    Returns:
        weights: List of `VariationalWeight`s, each once.

    Raises:
        ValueError: If the model is not built or has no variational layers.
    """
    if not isinstance(model, keras.layers.Layer):
        raise ValueError(
            f"A model must be a keras.Model. Received: {type(model).__name__}"
        )
    arrays.check_built(model)
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


def _check_family(weights):
    for weight in weights:
        if weight.family != "mean_field":
            raise ValueError(
                "Refinement starts from a mean-field posterior, with a scale "
                f"for each weight. Received: '{weight.loc.path}' of the family "
                f"'{weight.family}'"
            )
        if weight.max_std is not None:
            raise ValueError(
                "Refinement draws from the posterior as it is, without a limit "
                f"of the scales. Received: '{weight.loc.path}' with max_std="
                f"{weight.max_std}"
            )


def _prior(weight):
    """Returns a weight's prior, a Gaussian."""
    weight.check_prior()
    try:
        return weight.prior
    except ValueError as error:
        raise ValueError(
            f"Refinement needs a Gaussian prior for '{weight.loc.path}'. "
            f"{error}"
        ) from error


def _collect_points(model, weights):
    """Finds the trainable weights that belong to no posterior or prior."""
    belonging = {
        id(variable)
        for weight in weights
        for variable in (
            weight.loc,
            *weight.scale_weights,
            *weight.prior_weights,
        )
    }
    return [
        variable
        for variable in model.trainable_weights
        if id(variable) not in belonging
    ]
