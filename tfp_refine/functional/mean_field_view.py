"""The mean-field posterior of a model's variational layers as one vector."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.functional import data
from tfp_refine.functional import weight_view


class MeanFieldView(weight_view.WeightView):
    """The mean-field posterior of a model as `params [2, W]`.

    The rows are the means and the untransformed scales of all weights with a
    posterior, kernels and biases alike; a prior is a pair of vectors `[W]`.
    With `deterministic`, the model's `D` other trainable weights, except those
    of priors, are columns after these, `[2, W + D]`, whose second row has no
    meaning.

    Called with these, layers draw their weights, each by its own estimator.

    Attributes:
        weights: List of the `VariationalWeight`s, each once.
        deterministic_weights: List of the other `keras.Variable`s included.
        num_weights: `W`, the number of scalar weights with a posterior.
    """

    def __init__(self, model, deterministic=False):
        self.weights = variational_weights(model)
        _check_family(self.weights)
        self.has_deterministic = bool(deterministic)
        self.deterministic_weights = (
            _deterministic_weights(model, self.weights) if deterministic else []
        )
        self._locs = [weight.loc for weight in self.weights]
        self._scales = [w.untransformed_scale for w in self.weights]
        self._set_up(
            model,
            "mean_field",
            [*self._locs, *self._scales, *self.deterministic_weights],
            one_dtype=False,  # all are cast to that of the first mean
        )
        self.num_weights = sum(int(np.prod(loc.shape)) for loc in self._locs)

    @property
    def size(self):
        """`W`, or `W + D`."""
        return super().size - self.num_weights

    def params(self, model=None):
        """Returns the current values, `[2, W]` or `[2, W + D]`."""
        like = self
        if model is not None:
            like = MeanFieldView(model, self.has_deterministic)
        others = like.deterministic_weights
        return tf.stack(
            [
                weight_view.flatten([*like._locs, *others], self.dtype),
                weight_view.flatten(
                    [*like._scales, *map(keras.ops.zeros_like, others)],
                    self.dtype,
                ),
            ]
        )

    def prior(self):
        """Returns the model's current prior, `(loc [W], scale [W])`."""
        priors = [_prior(weight) for weight in self.weights]
        return tuple(
            weight_view.flatten(
                (
                    keras.ops.broadcast_to(getattr(prior, part), loc.shape)
                    for prior, loc in zip(priors, self._locs, strict=True)
                ),
                self.dtype,
            )
            for part in ("loc", "scale")
        )

    def split(self, params):
        """Cuts `params` into tensors of the shapes of `variables`."""
        loc, scale = tf.unstack(params)
        count = self.num_weights
        return [
            *weight_view.split(self._locs, loc[:count]),
            *weight_view.split(self._scales, scale[:count]),
            *weight_view.split(self.deterministic_weights, loc[count:]),
        ]

    def penalty(self, params):
        """Computes the deterministic weights' Keras regularizers, a scalar."""
        values = weight_view.split(
            self.deterministic_weights, params[0, self.num_weights :]
        )
        return sum(
            (
                tf.cast(variable.regularizer(value), params.dtype)
                for variable, value in zip(
                    self.deterministic_weights, values, strict=True
                )
                if variable.regularizer is not None
            ),
            start=tf.zeros([], params.dtype),
        )


def variational_weights(model):
    """Returns a model's `VariationalWeight`s, each once."""
    if not isinstance(model, keras.layers.Layer):
        raise ValueError(
            f"A model must be a keras.Model. Received: {type(model).__name__}"
        )
    data.check_built(model)
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


def _deterministic_weights(model, weights):
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
