"""The mean-field family of weight posteriors."""

import keras

from tfp_refine import arguments
from tfp_refine.layers import variational_weight
from tfp_refine.math import softplus


@keras.saving.register_keras_serializable(package="tfp_refine")
class MeanFieldPosterior:
    """Independent Gaussian posterior: a mean and a scale for each weight.

    Pass it as `kernel_posterior` or `bias_posterior`; the string "mean_field"
    stands for one with default arguments. It creates two variables for each
    weight tensor: the mean, and a value whose softplus is the standard
    deviation.

    Args:
        initial_scale: Standard deviation that training starts from. Small
            values let the means fit first, which slowly fitted data need.
            Defaults to `1e-3`.

    Raises:
        ValueError: If `initial_scale` is not a positive finite number.
    """

    def __init__(self, initial_scale=1e-3):
        self.initial_scale = arguments.positive("initial_scale", initial_scale)

    def build(
        self, add_weight, name, shape, initializer, constraint, regularizer
    ):
        """Creates the variables of one weight tensor.

        Args:
            add_weight: The `add_weight` method of the layer that owns them.
            name: "kernel" or "bias", a prefix of their names.
            shape: Shape of the weight tensor.
            initializer: Keras initializer of the means.
            constraint: Keras constraint of the means, or `None`.
            regularizer: `KLRegularizer`, or `None`.

        Returns:
            weight: `VariationalWeight`.
        """
        loc = add_weight(
            name=f"{name}_loc",
            shape=shape,
            initializer=initializer,
            constraint=constraint,
        )
        raw = softplus.inverse_of_float(self.initial_scale)
        untransformed_scale = add_weight(
            name=f"{name}_untransformed_scale",
            shape=shape,
            initializer=keras.initializers.Constant(raw),
        )
        prior_weights = (
            regularizer.prior_weights(add_weight, name) if regularizer else ()
        )
        return variational_weight.VariationalWeight(
            name, loc, untransformed_scale, regularizer, prior_weights
        )

    def get_config(self):
        return {"initial_scale": self.initial_scale}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def get(identifier):
    """Retrieves a posterior family from a name, a config or an object.

    Args:
        identifier: "mean_field", a serialized posterior family, a
            `MeanFieldPosterior`, or `None` for a point estimate.

    Returns:
        posterior: `MeanFieldPosterior` or `None`.

    Raises:
        ValueError: If it is none of these.
    """
    if identifier is None or isinstance(identifier, MeanFieldPosterior):
        return identifier
    if identifier == "mean_field":
        return MeanFieldPosterior()
    if isinstance(identifier, dict):
        return keras.saving.deserialize_keras_object(identifier)
    raise ValueError(
        'A posterior must be "mean_field", a `MeanFieldPosterior`, or None for '
        f"a point estimate. Received: {identifier!r}"
    )
