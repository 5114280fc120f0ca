"""The base of all families of weight posteriors."""

import keras


@keras.saving.register_keras_serializable(package="tfp_refine")
class PosteriorFamily:
    """A family of Gaussian posteriors, for `kernel_posterior` and the like.

    It owns no variables: the layer does, one set for each weight tensor. So
    one object can serve any number of layers.
    """

    def build(self, add_weight, name, loc, unit_axes=(-1,)):
        """Creates the variables of one weight tensor, but for its means.

        Args:
            add_weight: The `add_weight` method of the layer that owns them.
            name: "kernel" or "bias", a prefix of their names.
            loc: Variable of the means.
            unit_axes: Axes of it that count units: the last one, or before.

        Returns:
            weight: `VariationalWeight`, without a prior.

        Raises:
            ValueError: If the family does not fit the shape of the weights.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `build`"
        )

    def get_config(self):
        """Returns the arguments, as a dict."""
        return {}

    @classmethod
    def from_config(cls, config):
        """Makes the family that a config describes."""
        return cls(**config)
