"""Weight tensors of a variational layer, with or without a posterior."""

import keras

from tfp_refine.layers import noise
from tfp_refine.math import softplus


class PointWeight:
    """A weight tensor that is a point estimate: an ordinary Keras weight.

    It answers what `VariationalWeight` answers, with no randomness.

    Attributes:
        name: "kernel" or "bias".
        loc: The `keras.Variable`.
    """

    def __init__(self, name, loc):
        self.name = name
        self.loc = loc

    def mean(self, dtype):
        """Returns the weight, cast to `dtype`."""
        return keras.ops.cast(keras.ops.convert_to_tensor(self.loc), dtype)

    def sample(self, seed, dtype):
        """Returns the weight, cast to `dtype`: there is nothing to draw."""
        return self.mean(dtype)

    def perturbation(self, seed, dtype):
        """Returns `None`: a point estimate has no noise about its mean."""

    def variance(self, dtype):
        """Returns `None`: a point estimate has no variance."""


class VariationalWeight:
    """A weight tensor with the posterior `N(loc, scale**2)`, independent.

    This is all that refinement, initialization and conversion know of a layer:
    they find it in the layer's `variational_weights`.

    Attributes:
        name: "kernel" or "bias".
        loc: `keras.Variable`, posterior mean, `[...]`.
        untransformed_scale: `keras.Variable` whose softplus is the posterior's
            standard deviation, `[...]`.
        regularizer: `KLRegularizer`, or `None` if the weight has no prior.
        prior_weights: Tuple of `keras.Variable`: what the prior learns.
    """

    def __init__(
        self, name, loc, untransformed_scale, regularizer, prior_weights
    ):
        self.name = name
        self.loc = loc
        self.untransformed_scale = untransformed_scale
        self.regularizer = regularizer
        self.prior_weights = tuple(prior_weights)

    @property
    def scale(self):
        """Standard deviation of the posterior, a tensor `[...]`."""
        return keras.ops.softplus(
            keras.ops.convert_to_tensor(self.untransformed_scale)
        )

    @property
    def prior(self):
        """Prior as it stands: a `Gaussian(loc, scale)`, or `None`."""
        if self.regularizer is None:
            return None
        loc = keras.ops.convert_to_tensor(self.loc)
        return self.regularizer.prior(loc, self.scale, self.prior_weights)

    def kl(self, loc=None):
        """Computes the KL divergence from the prior, in nats, a scalar."""
        loc = self.loc if loc is None else loc
        return self.regularizer(loc, self.scale, self.prior_weights)

    def assign(self, loc=None, scale=None):
        """Sets the posterior.

        Args:
            loc: New mean, `[...]`; kept if `None`.
            scale: New standard deviation, positive, `[...]`; kept if `None`.
        """
        if loc is not None:
            self.loc.assign(loc)
        if scale is not None:
            self.untransformed_scale.assign(
                softplus.inverse(
                    keras.ops.convert_to_tensor(scale, dtype=self.loc.dtype)
                )
            )

    def mean(self, dtype):
        """Returns the posterior mean, cast to `dtype`."""
        return keras.ops.cast(keras.ops.convert_to_tensor(self.loc), dtype)

    def sample(self, seed, dtype):
        """Draws the weight tensor, cast to `dtype`."""
        # The sum is taken before the cast: half precision would lose it.
        deviation = self.perturbation(seed, self.loc.dtype)
        return keras.ops.cast(
            keras.ops.convert_to_tensor(self.loc) + deviation, dtype
        )

    def perturbation(self, seed, dtype):
        """Draws the deviation of the weight tensor from its mean."""
        draws = noise.standard_normal(self.loc.shape, self.loc.dtype, seed)
        return keras.ops.cast(self.scale * draws, dtype)

    def variance(self, dtype):
        """Returns the posterior variance, cast to `dtype`."""
        return keras.ops.cast(keras.ops.square(self.scale), dtype)
