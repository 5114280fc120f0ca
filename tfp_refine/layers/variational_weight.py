"""Weight tensors of a variational layer, with or without a posterior."""

import keras
import tensorflow as tf

from tfp_refine.layers import noise as random_draws
from tfp_refine.math import gaussian


class PointWeight:
    """A weight tensor that is a point estimate: an ordinary Keras weight.

    It answers what `VariationalWeight` answers, with no randomness.

    Attributes:
        name: "kernel" or "bias".
        loc: The `keras.Variable`.
        factor: `None`: there is nothing to be correlated.
    """

    factor = None

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
    """A weight tensor with a Gaussian posterior.

    This is all that refinement, initialization and conversion know of a layer:
    they find it in the layer's `variational_weights`. Subclasses, one for each
    posterior family, say what `scale` is; one with correlations has a `factor`.
    `w = loc + independent_scale * e + K**-0.5 sum_k z_k factor_k`, with `e` and
    the `K` numbers `z_k` standard normal.

    Attributes:
        family: Name of the posterior family.
        name: "kernel" or "bias".
        loc: `keras.Variable`, posterior mean, `[...]`.
        scale_weights: Tuple of `keras.Variable`: what else the family learns.
        regularizer: `KLRegularizer`, or `None` if the weight has no prior.
        prior_weights: Tuple: what the regularizer's `prior_weights` returned.
        max_std: Largest standard deviation that draws and variances have, or
            `None`; `scale`, and by default the KL divergence, have no limit.
    """

    family = None
    # Whether every positive `scale` is in the family.
    has_free_scales = False
    # Whether `loc` and `scale` are those of Gaussian marginals.
    is_gaussian = True
    factor = None

    def __init__(self, name, loc, scale_weights=()):
        self.name = name
        self.loc = loc
        self.scale_weights = tuple(scale_weights)
        self.regularizer = None
        self.prior_weights = ()
        self.max_std = None
        self._last_noise = None

    def set_prior(self, regularizer, prior_weights=()):
        """Sets the prior.

        Args:
            regularizer: `KLRegularizer`, for the fan-in of this weight.
            prior_weights: What its `prior_weights` returned.
        """
        self.regularizer = regularizer
        self.prior_weights = tuple(prior_weights)

    def check_prior(self):
        """Checks that there is a prior.

        Raises:
            ValueError: If there is none.
        """
        if self.regularizer is None:
            raise ValueError(
                f"Variational weight '{self.loc.path}' has no prior; its layer "
                "needs a KL regularizer."
            )

    @property
    def scale(self):
        """Standard deviation of each weight, a tensor `[...]`."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `scale`"
        )

    @property
    def independent_scale(self):
        """That of the part of each weight that is independent of others."""
        return self.scale

    @property
    def limited_scale(self):
        """`scale`, but at most `max_std`: that of the draws."""
        return self._limited(self.scale)

    def _limited(self, scale):
        if self.max_std is None:
            return scale
        # No gradient above the limit: there the prior alone pulls.
        return keras.ops.minimum(scale, self.max_std)

    def total_correlation(self):
        """Computes the divergence from the product of the marginals, nats.

        Returns:
            total_correlation: Scalar, or `None` if weights are independent.
        """

    @property
    def prior(self):
        """Prior as it stands: a `Gaussian(loc, scale)`, or `None`.

        Raises:
            ValueError: If it is not Gaussian.
        """
        if self.regularizer is None:
            return None
        loc = keras.ops.convert_to_tensor(self.loc)
        return self.regularizer.prior(loc, self.scale, self.prior_weights)

    def kl(self, loc=None, seed=None, limited=False):
        """Computes the KL divergence from the prior, in nats, a scalar.

        Args:
            loc: Posterior mean in place of the variable's, `[...]`.
            seed: `keras.random.SeedGenerator`, for a divergence that is
                estimated from a draw: used unless the forward pass left one.
            limited: Whether it is that of a posterior with `limited_scale`,
                which with the likelihood of the draws makes a bound.

        Returns:
            kl: Scalar.
        """
        loc = keras.ops.convert_to_tensor(self.loc if loc is None else loc)
        draw = None
        if self.regularizer.needs_draw:
            draw = loc + self._deviation(self._take_noise(seed))
        scale = self.limited_scale if limited else self.scale
        kl = self.regularizer(loc, scale, self.prior_weights, draw)
        correlation = self.total_correlation()
        return kl if correlation is None else kl + correlation

    @property
    def has_random_kl(self):
        """Whether `kl` is an unbiased estimate, another at each call."""
        return self.regularizer.needs_draw

    def marginal_kl(self, seed=None, limited=False):
        """Computes the KL divergence from `prior`, in nats, a scalar.

        It is `kl`, but for a prior with parameters that were integrated out.

        Args:
            seed: As for `kl`.
            limited: As for `kl`.

        Returns:
            kl: Scalar.

        Raises:
            ValueError: If the prior is not Gaussian.
        """
        scale = self.limited_scale if limited else self.scale
        q = gaussian.Gaussian(keras.ops.convert_to_tensor(self.loc), scale)
        kl = keras.ops.sum(gaussian.kl_divergence(q, self.prior))
        correlation = self.total_correlation()
        return kl if correlation is None else kl + correlation

    def unit_kl(self, axes):
        """Computes the KL divergence of each unit's weights, nats.

        Args:
            axes: Axes of the weight tensor that count units.

        Returns:
            kl: Of the marginals from their priors, summed over other axes.
        """
        loc = keras.ops.convert_to_tensor(self.loc)
        draw = None
        if self.regularizer.needs_draw:
            draw = loc + self._deviation(self._noise(None))
        kl = self.regularizer.elementwise(
            loc, self.scale, self.prior_weights, draw
        )
        axes = {axis % len(loc.shape) for axis in axes}
        return keras.ops.sum(
            kl, axis=tuple(i for i in range(len(loc.shape)) if i not in axes)
        )

    def assign(self, loc=None, scale=None):
        """Sets the posterior.

        Args:
            loc: New mean, `[...]`; kept if `None`.
            scale: New standard deviation, positive, `[...]`; kept if `None`.

        Raises:
            ValueError: If the family cannot have any `scale`.
        """
        if scale is not None:
            self.check_free_scales()
            self._assign_scale(
                keras.ops.convert_to_tensor(scale, dtype=self.loc.dtype)
            )
        if loc is not None:
            self.loc.assign(loc)

    def initialize(self, loc, scale):
        """Sets the posterior as close to independent Gaussians as it can be.

        Args:
            loc: Means, broadcastable to `[...]`.
            scale: Standard deviations, positive, likewise. A family that cannot
                have any takes of them what the docstring of its own says.
        """
        loc, scale = (
            keras.ops.broadcast_to(
                keras.ops.cast(value, self.loc.dtype), self.loc.shape
            )
            for value in (loc, scale)
        )
        self._initialize_scale(scale)
        self.loc.assign(loc)

    def _initialize_scale(self, scale):
        self._assign_scale(scale)

    def check_free_scales(self):
        """Checks that any scale can be assigned.

        Raises:
            ValueError: If not.
        """
        if not self.has_free_scales:
            raise ValueError(
                f"The scales of a posterior of the family '{self.family}' "
                "cannot be set: not every scale is in it."
            )

    def _assign_scale(self, scale):
        raise NotImplementedError(
            f"{type(self).__name__} must implement `_assign_scale`"
        )

    def mean(self, dtype):
        """Returns the posterior mean, cast to `dtype`."""
        return keras.ops.cast(keras.ops.convert_to_tensor(self.loc), dtype)

    def sample(self, seed, dtype):
        """Draws the weight tensor, cast to `dtype`."""
        noise = self._noise(seed)
        if self.regularizer is not None and self.regularizer.needs_draw:
            self._last_noise = noise
        # The sum is taken before the cast: half precision would lose it.
        return keras.ops.cast(
            keras.ops.convert_to_tensor(self.loc) + self._deviation(noise),
            dtype,
        )

    def perturbation(self, seed, dtype):
        """Draws the independent part of the deviation from the mean."""
        draws = random_draws.standard_normal(
            self.loc.shape, self.loc.dtype, seed
        )
        scale = self._limited(self.independent_scale)
        return keras.ops.cast(scale * draws, dtype)

    def variance(self, dtype):
        """Returns the variance of the independent part, cast to `dtype`."""
        scale = self._limited(self.independent_scale)
        return keras.ops.cast(keras.ops.square(scale), dtype)

    def _noise(self, seed):
        """Draws standard normal numbers: `e`, and `z` if there is a factor."""
        dtype = self.loc.dtype
        independent = random_draws.standard_normal(self.loc.shape, dtype, seed)
        if self.factor is None:
            return (independent,)
        rank = self.factor.shape[0]
        return independent, random_draws.standard_normal((rank,), dtype, seed)

    def _deviation(self, noise):
        """Computes the deviation from the mean that noise stands for."""
        deviation = self._limited(self.independent_scale) * noise[0]
        if self.factor is None:
            return deviation
        factor = keras.ops.convert_to_tensor(self.factor)
        scaled = noise[1] / factor.shape[0] ** 0.5
        return deviation + keras.ops.tensordot(scaled, factor, axes=1)

    def _take_noise(self, seed):
        """Returns the noise of the last draw once, or else a new one."""
        noise, self._last_noise = self._last_noise, None
        if noise is not None and _is_of_this_graph(noise[0]):
            return noise
        return self._noise(seed)


def _is_of_this_graph(tensor):
    """Tells whether a tensor can be used here, eagerly or in a trace."""
    if tf.executing_eagerly():
        return tf.is_tensor(tensor) and not tf.is_symbolic_tensor(tensor)
    return tf.is_symbolic_tensor(tensor) and (
        tensor.graph is tf.compat.v1.get_default_graph()
    )
