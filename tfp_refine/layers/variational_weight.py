"""Weight tensors of a variational layer, with or without a posterior."""

from typing import Any
from typing import TypeAlias

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import regularizers
from tfp_refine.layers import noise as random_draws
from tfp_refine.math import gaussian

Seed: TypeAlias = keras.random.SeedGenerator


class PointWeight:
    """A weight tensor that is a point estimate: an ordinary Keras weight.

    It has the methods of `VariationalWeight` that a forward pass needs.
    """

    factor = None

    def __init__(self, name: str, loc: keras.Variable) -> None:
        self.name = name
        self.loc = loc

    def mean(self, dtype: str) -> tf.Tensor:
        """Returns the weight, cast to `dtype`."""
        return keras.ops.cast(keras.ops.convert_to_tensor(self.loc), dtype)

    def variance(self, dtype: str) -> None:
        """Returns `None`, as there is no variance."""

    def sample(self, seed: Seed, dtype: str) -> tf.Tensor:
        """Returns the weight, cast to `dtype`."""
        return self.mean(dtype)

    def perturbation(self, seed: Seed, dtype: str) -> None:
        """Returns `None`, as there is no noise about the mean."""


class VariationalWeight(_validation.Shown):
    """A weight tensor with a Gaussian posterior.

    Refinement, initialization and conversion find these objects in a layer's
    `variational_weights`, and know no more of the layer. A subclass, one for
    each posterior family, defines `scale`; one with correlations has a
    `factor`: `w = loc + independent_scale * e + K**-0.5 sum_k z_k factor_k`,
    with `e` and the `K` numbers `z_k` standard normal.

    Attributes:
        family: Name of the posterior family.
        name: "kernel" or "bias".
        loc: `keras.Variable`, posterior mean, `[...]`.
        scale_weights: Tuple of `keras.Variable`: the other variables of the
            family.
        regularizer: `KLRegularizer`, or `None` if the weight has no prior.
        prior_weights: Tuple returned by the regularizer's `prior_weights`.
        max_std: Largest standard deviation of draws, or `None` for no limit, as
            in all families but those of `DenseMNF` and `Conv2DMNF`.
        has_free_scales: Whether every positive `scale` is in the family.
        is_gaussian: Whether `loc` and `scale` are those of Gaussian marginals.

    Example:

    ```python
    layer = tfp_refine.layers.DenseFlipout(10, num_train_examples=60000)
    layer.build((None, 50))
    for weight in layer.variational_weights:
        print(weight.name, weight.loc.shape, float(weight.kl()))
    ```
    """

    family: str
    has_free_scales = False
    is_gaussian = True
    factor: keras.Variable | None = None
    max_std: float | None = None

    def __init__(
        self,
        name: str,
        loc: keras.Variable,
        scale_weights: tuple[keras.Variable, ...] = (),
    ) -> None:
        self.name = name
        self.loc = loc
        self.scale_weights = tuple(scale_weights)
        self.regularizer: regularizers.KLRegularizer | None = None
        self.prior_weights: tuple[keras.Variable, ...] = ()
        self._forward_noise: _ForwardNoise | None = None

    def _shown_arguments(self) -> dict[str, Any]:
        return {"name": self.name, "loc": self.loc, "prior": self.regularizer}

    # Prior.

    def set_prior(
        self,
        regularizer: regularizers.KLRegularizer,
        prior_weights: tuple[keras.Variable, ...] = (),
    ) -> None:
        """Sets the prior and its variables.

        Args:
            regularizer: KL regularizer, for the fan-in of this weight.
            prior_weights: Variables that its `prior_weights` created.
        """
        self.regularizer = regularizer
        self.prior_weights = tuple(prior_weights)
        if regularizer.needs_draw:
            self._forward_noise = _ForwardNoise()

    def check_prior(self) -> regularizers.KLRegularizer:
        """Returns the KL regularizer.

        Raises:
            ValueError: If there is no prior.
        """
        if self.regularizer is None:
            raise ValueError(
                f"Variational weight '{self.loc.path}' has no prior; its layer "
                "needs a KL regularizer."
            )
        return self.regularizer

    @property
    def prior(self) -> gaussian.Gaussian | None:
        """Current prior: a `Gaussian(loc, scale)`, or `None`.

        Raises:
            ValueError: If it is not Gaussian.
        """
        if self.regularizer is None:
            return None
        loc = keras.ops.convert_to_tensor(self.loc)
        return self.regularizer.prior(loc, self.scale, self.prior_weights)

    # Posterior.

    @property
    def scale(self) -> tf.Tensor:
        """Standard deviation of each weight, a tensor `[...]`."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `scale`"
        )

    @property
    def independent_scale(self) -> tf.Tensor:
        """Standard deviation of the independent part of each weight."""
        return self.scale

    @property
    def limited_scale(self) -> tf.Tensor:
        """`scale`, but at most `max_std`."""
        return self._limited(self.scale)

    @property
    def _draw_scale(self) -> tf.Tensor:
        """`independent_scale`, but at most `max_std`."""
        return self._limited(self.independent_scale)

    def _limited(self, scale: tf.Tensor) -> tf.Tensor:
        if self.max_std is None:
            return scale
        # No gradient above the limit: there the prior alone pulls.
        return keras.ops.minimum(scale, self.max_std)

    def mean(self, dtype: str) -> tf.Tensor:
        """Returns the posterior mean.

        Args:
            dtype: Name of the dtype to cast to.

        Returns:
            mean: Tensor, `[...]`.
        """
        return keras.ops.cast(keras.ops.convert_to_tensor(self.loc), dtype)

    def variance(self, dtype: str) -> tf.Tensor:
        """Returns the variance of the independent part of each weight.

        Args:
            dtype: Name of the dtype to cast to.

        Returns:
            variance: Tensor, `[...]`.
        """
        return keras.ops.cast(keras.ops.square(self._draw_scale), dtype)

    def sample(self, seed: Seed, dtype: str) -> tf.Tensor:
        """Draws the weight tensor.

        Args:
            seed: `keras.random.SeedGenerator`.
            dtype: Name of the dtype to cast to.

        Returns:
            draw: Tensor, `[...]`.
        """
        noise = self._noise(seed)
        if self._forward_noise is not None:
            self._forward_noise.keep(noise)
        # The sum is taken before the cast: half precision would lose it.
        return keras.ops.cast(
            keras.ops.convert_to_tensor(self.loc) + self._deviation(noise),
            dtype,
        )

    def perturbation(self, seed: Seed, dtype: str) -> tf.Tensor:
        """Draws the independent part of the deviation from the mean.

        Args:
            seed: As for `sample`.
            dtype: As for `sample`.

        Returns:
            deviation: Tensor, `[...]`.
        """
        draws = random_draws.standard_normal(
            self.loc.shape, self.loc.dtype, seed
        )
        return keras.ops.cast(self._draw_scale * draws, dtype)

    def _noise(self, seed: Seed | None) -> tuple[tf.Tensor, ...]:
        """Draws the standard normal numbers of a draw."""
        return (
            random_draws.standard_normal(self.loc.shape, self.loc.dtype, seed),
        )

    def _deviation(self, noise: tuple[tf.Tensor, ...]) -> tf.Tensor:
        """Computes the deviation from the mean, given the noise."""
        return self._draw_scale * noise[0]

    # Divergence.

    @property
    def has_random_kl(self) -> bool:
        """True if `kl` is an unbiased estimate that differs between calls."""
        return self.regularizer is not None and self.regularizer.needs_draw

    def kl(
        self,
        loc: tf.Tensor | None = None,
        seed: Seed | None = None,
        limited: bool = False,
    ) -> tf.Tensor:
        """Computes the KL divergence from the prior, in nats, a scalar.

        Args:
            loc: Posterior mean in place of the variable's, `[...]`.
            seed: `keras.random.SeedGenerator`, for a divergence that is
                estimated from a draw, where the forward pass left none.
            limited: Whether the posterior is that with `limited_scale`. With
                the likelihood of the draws, its divergence makes a bound.

        Returns:
            kl: Scalar.
        """
        regularizer = self.check_prior()
        loc = keras.ops.convert_to_tensor(self.loc if loc is None else loc)
        scale = self.limited_scale if limited else self.scale
        draw = None
        if self._forward_noise is not None:
            noise = self._forward_noise.take()
            draw = loc + self._deviation(
                self._noise(seed) if noise is None else noise
            )
        return self._with_correlation(
            regularizer(loc, scale, self.prior_weights, draw)
        )

    def elementwise_kl(self) -> tf.Tensor:
        """Computes the KL divergence of each weight's marginal.

        A divergence that is estimated from a draw uses a new one.

        Returns:
            kl: Nats, `[...]`.

        Raises:
            ValueError: If there is no prior.
        """
        regularizer = self.check_prior()
        loc = keras.ops.convert_to_tensor(self.loc)
        draw = None
        if self._forward_noise is not None:
            draw = loc + self._deviation(self._noise(None))
        return regularizer.elementwise(
            loc, self.scale, self.prior_weights, draw
        )

    def marginal_kl(
        self, seed: Seed | None = None, limited: bool = False
    ) -> tf.Tensor:
        """Computes the KL divergence from `prior`.

        It equals `kl`, unless parameters of the prior are integrated out.

        Args:
            seed: As for `kl`.
            limited: As for `kl`.

        Returns:
            kl: Nats, a scalar.

        Raises:
            ValueError: If the prior is not Gaussian.
        """
        regularizer = self.check_prior()
        loc = keras.ops.convert_to_tensor(self.loc)
        prior = regularizer.prior(loc, self.scale, self.prior_weights)
        scale = self.limited_scale if limited else self.scale
        q = gaussian.Gaussian(loc, scale)
        return self._with_correlation(
            keras.ops.sum(gaussian.kl_divergence(q, prior))
        )

    def total_correlation(self) -> tf.Tensor | None:
        """Computes the divergence from the product of the marginals.

        Returns:
            kl: Nats, a scalar; `None` if weights are independent.
        """
        return None

    def _with_correlation(self, kl: tf.Tensor) -> tf.Tensor:
        correlation = self.total_correlation()
        return kl if correlation is None else kl + correlation

    # Assignment.

    def assign(
        self,
        loc: tf.Tensor | None = None,
        scale: tf.Tensor | None = None,
    ) -> None:
        """Sets the posterior.

        Args:
            loc: New mean, `[...]`; unchanged if `None`.
            scale: New standard deviation, positive, `[...]`; unchanged if
                `None`.

        Raises:
            ValueError: If the family does not contain every `scale`.
        """
        if scale is not None:
            self.check_free_scales()
            self._assign_scale(
                keras.ops.convert_to_tensor(scale, dtype=self.loc.dtype)
            )
        if loc is not None:
            self.loc.assign(loc)

    def initialize(self, loc: tf.Tensor, scale: tf.Tensor) -> None:
        """Sets the posterior as close to independent Gaussians as it can be.

        Args:
            loc: Means, broadcastable to `[...]`.
            scale: Standard deviations, positive, broadcastable to `[...]`. A
                family that does not contain them all documents its choice.
        """
        loc, scale = (
            keras.ops.broadcast_to(
                keras.ops.cast(value, self.loc.dtype), self.loc.shape
            )
            for value in (loc, scale)
        )
        self._initialize_scale(scale)
        self.loc.assign(loc)

    def check_free_scales(self) -> None:
        """Checks that every scale can be assigned.

        Raises:
            ValueError: If the family does not contain every scale.
        """
        if not self.has_free_scales:
            raise ValueError(
                f"The scales of a posterior of the family '{self.family}' "
                "cannot be set: not every scale is in it."
            )

    def _initialize_scale(self, scale: tf.Tensor) -> None:
        self._assign_scale(scale)

    def _assign_scale(self, scale: tf.Tensor) -> None:
        raise NotImplementedError(
            f"{type(self).__name__} must implement `_assign_scale`"
        )


class _ForwardNoise:
    """Keeps the noise of the last draw of a weight tensor.

    The KL divergence from a prior such as `ScaleMixtureKL` is estimated at the
    draw of the weights that the outputs are computed with.
    """

    def __init__(self) -> None:
        self._noise: tuple[tf.Tensor, ...] | None = None

    def keep(self, noise: tuple[tf.Tensor, ...]) -> None:
        """Keeps the noise of a forward pass, in place of an older one."""
        self._noise = noise

    def take(self) -> tuple[tf.Tensor, ...] | None:
        """Returns the noise once, or `None` if there is none to be used here.

        Noise of another trace, or of an eager call in a trace, cannot be used.
        """
        noise, self._noise = self._noise, None
        if noise is None or not _is_of_this_graph(noise[0]):
            return None
        return noise


def _is_of_this_graph(tensor: tf.Tensor) -> bool:
    """Returns whether a tensor can be used here, eagerly or in a trace."""
    if tf.executing_eagerly():
        return tf.is_tensor(tensor) and not tf.is_symbolic_tensor(tensor)
    return tf.is_symbolic_tensor(tensor) and (
        tensor.graph is tf.compat.v1.get_default_graph()
    )
