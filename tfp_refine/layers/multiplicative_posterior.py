"""Weight posteriors whose means are multiplied by a normalizing flow."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import flow_weights
from tfp_refine.layers import mean_field_posterior
from tfp_refine.layers import noise as random_draws
from tfp_refine.layers import posterior_family
from tfp_refine.layers import variational_weight
from tfp_refine.math import gaussian
from tfp_refine.math import multiplicative

Seed: TypeAlias = variational_weight.Seed
Flow: TypeAlias = flow_weights.CouplingFlow | flow_weights.PlanarFlow

# Spread of the multipliers' initial means about one, in initial scales.
_Z_SPREAD = 0.1
# Number of draws that their mean is computed from.
_MEAN_DRAWS = 128
_AUXILIARY = ("log_precision", "paper")
_ESTIMATORS = ("local_reparameterization", "reparameterization")
_MAX_LOG_VAR = 40


@dataclasses.dataclass
class FlowSettings:
    """Checked arguments of layers with multiplicative normalizing flows."""

    flow_length: int
    flow_units: int
    auxiliary_flow_length: int
    auxiliary_flow_units: int
    masks: str
    auxiliary: str
    log_var_init: float
    z_var_init: float
    max_std: float | None
    inference_estimator: str

    def __post_init__(self) -> None:
        for name in ("flow_length", "auxiliary_flow_length"):
            length = _validation.not_negative_integer(name, getattr(self, name))
            setattr(self, name, length)
        for name in ("flow_units", "auxiliary_flow_units"):
            units = _validation.positive_integer(name, getattr(self, name))
            setattr(self, name, units)
        _validation.one_of("masks", self.masks, flow_weights.MASKS)
        _validation.one_of("auxiliary", self.auxiliary, _AUXILIARY)
        _validation.one_of(
            "inference_estimator", self.inference_estimator, _ESTIMATORS
        )
        self.z_var_init = _validation.positive("z_var_init", self.z_var_init)
        if self.max_std is not None:
            self.max_std = _validation.positive("max_std", self.max_std)
        self.log_var_init = _validation.finite(
            "log_var_init", self.log_var_init
        )
        if abs(self.log_var_init) > _MAX_LOG_VAR:
            raise ValueError(
                f"`log_var_init` must be in [-{_MAX_LOG_VAR}, {_MAX_LOG_VAR}]. "
                f"Received: log_var_init={self.log_var_init}"
            )

    @property
    def initial_scale(self) -> float:
        """Initial standard deviation of weights given the multipliers."""
        return math.exp(0.5 * self.log_var_init)


class MultiplicativePosterior(posterior_family.PosteriorFamily):
    """Posterior of the layers `DenseMNF` and `Conv2DMNF`.

    The multipliers go along the axis `z_axis` of the kernel. Without a flow
    there are none: the posterior is mean-field, with a limit on the scales of
    draws.
    """

    def __init__(
        self,
        settings: FlowSettings,
        z_axis: int,
        seed: int | None = None,
    ) -> None:
        self._settings = settings
        self._z_axis = z_axis
        self._seed = seed

    def build(
        self,
        add_weight: posterior_family.AddWeight,
        name: str,
        loc: keras.Variable,
        unit_axes: tuple[int, ...] = (-1,),
    ) -> mean_field_posterior.MeanFieldWeight:
        settings = self._settings
        weight = mean_field_posterior.MeanFieldPosterior(
            settings.initial_scale
        ).build(add_weight, name, loc, unit_axes)
        if settings.flow_length:
            weight = MultiplicativeWeight(
                weight, add_weight, settings, self._z_axis, self._seed
            )
        weight.max_std = settings.max_std
        return weight


class Base(NamedTuple):
    """Gaussian that the flow of `q(z)` starts from: variables `[D]`."""

    loc: keras.Variable
    log_variance: keras.Variable


class MultiplicativeWeight(mean_field_posterior.MeanFieldWeight):
    """A weight tensor `W ~ N(z * loc, scale**2)`, with random `z`.

    The flow of `q(z)` starts at `base`. `auxiliary`, `[3, D]`, holds `c`, `b1`
    and `b2` of `r(z|W)`. `auxiliary_base`, `[2, D]`, is the part of its mean
    and log precision that does not depend on the weights; `None` as in the
    paper.
    """

    family = "multiplicative_normalizing_flow"
    has_free_scales = False
    is_gaussian = False

    def __init__(
        self,
        given_z: mean_field_posterior.MeanFieldWeight,
        add_weight: posterior_family.AddWeight,
        settings: FlowSettings,
        z_axis: int,
        seed: int | None,
    ) -> None:
        name, loc = given_z.name, given_z.loc
        super().__init__(name, loc, given_z.untransformed_scale)
        self._z_axis = z_axis % len(loc.shape)
        size = loc.shape[z_axis]
        initializers = flow_weights.Initializers(seed)
        z_scale = math.sqrt(settings.z_var_init)

        def add(**arguments: Any) -> keras.Variable:
            variable = add_weight(**arguments)
            self.scale_weights += (variable,)
            return variable

        def add_flow(kind: str, length: int, units: int) -> Flow:
            return flow_weights.build(
                add,
                f"{name}_{kind}",
                size,
                length,
                units,
                settings.masks,
                initializers,
            )

        self.base = Base(
            add(
                name=f"{name}_z_loc",
                shape=(size,),
                initializer=initializers.normal(_Z_SPREAD * z_scale, mean=1.0),
            ),
            add(
                name=f"{name}_z_log_variance",
                shape=(size,),
                initializer=keras.initializers.Constant(
                    math.log(settings.z_var_init)
                ),
            ),
        )
        self.flow = add_flow("flow", settings.flow_length, settings.flow_units)
        self.auxiliary_flow = None
        if settings.auxiliary_flow_length:
            self.auxiliary_flow = add_flow(
                "auxiliary_flow",
                settings.auxiliary_flow_length,
                settings.auxiliary_flow_units,
            )
        # The statistic should vary no more than the multipliers.
        spread = size**-0.5 * np.array([[1.0], *2 * [[z_scale]]])
        draw = initializers.normal(1.0)
        self.auxiliary = add(
            name=f"{name}_auxiliary",
            shape=(3, size),
            initializer=lambda shape, dtype: draw(shape, dtype) * spread,
        )
        self.auxiliary_base = None
        if settings.auxiliary != "paper":
            # Initially r(z|W) is close to q(z), so that it does not pull the
            # multipliers. Otherwise they turn to noise, and small data sets
            # are not fitted.
            base = np.array([[1.0], [-2.0 * math.log(z_scale)]])
            self.auxiliary_base = add(
                name=f"{name}_auxiliary_base",
                shape=(2, size),
                initializer=keras.initializers.Constant(base),
            )

    @property
    def has_random_kl(self) -> bool:
        return True

    def draw_z(
        self, batch_shape: tuple[int | tf.Tensor, ...], seed: Seed | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Draws `z`, `[*batch_shape, D]`, and the flow's log determinant."""
        dtype = self.loc.dtype
        noise = random_draws.standard_normal(
            (*batch_shape, self.base.loc.shape[0]), dtype, seed
        )
        masks = self.flow.draw_masks(batch_shape, dtype, seed)
        return self.flow(self._base_draw(noise), masks)

    def mean_z(self) -> tf.Tensor:
        """Computes the mean of the multipliers, `[D]`.

        It has no closed form: this is the average over a fixed set of draws,
        in pairs with opposite noise.
        """
        size, dtype = self.base.loc.shape[0], self.loc.dtype
        rng = np.random.default_rng(0)
        half = rng.normal(size=(_MEAN_DRAWS // 2, size))
        noise = keras.ops.cast(np.concatenate([half, -half]), dtype)
        masks = self.flow.draw_masks((_MEAN_DRAWS,), dtype, 0)
        z, _ = self.flow(self._base_draw(noise), masks)
        return keras.ops.mean(z, axis=0)

    def initialize(self, loc: tf.Tensor, scale: tf.Tensor) -> None:
        """Sets `loc` so that `mean` is the one given; `scale` is given `z`."""
        super().initialize(loc, scale)
        ratio = self._times(keras.ops.reciprocal(self.mean_z()))
        self.loc.assign(ratio)

    def mean(self, dtype: str) -> tf.Tensor:
        """Returns the posterior mean by `mean_z`, cast to `dtype`."""
        return keras.ops.cast(self._times(self.mean_z()), dtype)

    def draw_mean(self, seed: Seed) -> tf.Tensor:
        """Draws the means of the weights given multipliers, `[...]`."""
        z, _ = self.draw_z((), seed)
        return self._times(z)

    def sample(self, seed: Seed, dtype: str) -> tf.Tensor:
        mean = self.draw_mean(seed)
        deviation = self._deviation(self._noise(seed))
        return keras.ops.cast(mean + deviation, dtype)

    def kl(
        self,
        loc: tf.Tensor | None = None,
        seed: Seed | None = None,
        limited: bool = False,
    ) -> tf.Tensor:
        """Draws the bound on the KL divergence from the prior, nats, a scalar.

        Single draws can be negative; their mean is the bound.
        """
        regularizer = self.check_prior()

        def conditional_kl(mean: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
            return regularizer(mean, scale, self.prior_weights)

        return self._draw_bound(conditional_kl, loc, seed, limited)

    def marginal_kl(
        self, seed: Seed | None = None, limited: bool = False
    ) -> tf.Tensor:
        regularizer = self.check_prior()

        def conditional_kl(mean: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
            prior = regularizer.prior(mean, scale, self.prior_weights)
            q = gaussian.Gaussian(mean, scale)
            return keras.ops.sum(gaussian.kl_divergence(q, prior))

        return self._draw_bound(conditional_kl, None, seed, limited)

    def _draw_bound(
        self,
        conditional_kl: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        loc: tf.Tensor | None,
        seed: Seed | None,
        limited: bool,
    ) -> tf.Tensor:
        scale = self.limited_scale if limited else self.scale
        z, log_det = self.draw_z((), seed)
        mean = self._times(z, loc)
        log_q = multiplicative.expected_log_prob(
            keras.ops.convert_to_tensor(self.base.log_variance), log_det
        )
        log_r = self._log_r(z, mean, scale, seed)
        return conditional_kl(mean, scale) + log_q - log_r

    def _log_r(
        self,
        z: tf.Tensor,
        mean: tf.Tensor,
        scale: tf.Tensor,
        seed: Seed | None,
    ) -> tf.Tensor:
        """Computes `log r(z|W)` for weights drawn given `z`."""
        c, b1, b2 = keras.ops.unstack(
            keras.ops.convert_to_tensor(self.auxiliary), axis=0
        )
        mean, variance = (
            self._as_rows(value) for value in (mean, keras.ops.square(scale))
        )
        noise = random_draws.standard_normal(
            (mean.shape[1],), self.loc.dtype, seed
        )
        is_paper = self.auxiliary_base is None
        is_conv = len(self.loc.shape) > 2
        statistic = multiplicative.statistic(
            mean, variance, c, noise, linear=is_conv and not is_paper
        )
        loc, log_precision = b1 * statistic, b2 * statistic
        base_log_precision = 0.0
        if is_paper:  # a sigmoid that is a standard deviation
            log_precision = -2.0 * keras.ops.log_sigmoid(log_precision)
        else:
            base_loc, base_log_precision = keras.ops.unstack(
                keras.ops.convert_to_tensor(self.auxiliary_base)
            )
            loc = loc + base_loc
        base, log_det = z, 0.0
        if self.auxiliary_flow is not None:
            masks = self.auxiliary_flow.draw_masks((), z.dtype, seed)
            base, log_det = self.auxiliary_flow(z, masks)
        return multiplicative.auxiliary_log_prob(
            base, log_det, loc, log_precision, base_log_precision
        )

    def _base_draw(self, noise: tf.Tensor) -> tf.Tensor:
        loc, log_variance = map(keras.ops.convert_to_tensor, self.base)
        return loc + keras.ops.exp(0.5 * log_variance) * noise

    def _times(self, z: tf.Tensor, loc: tf.Tensor | None = None) -> tf.Tensor:
        """Multiplies the means by multipliers, `[D]`."""
        loc = keras.ops.convert_to_tensor(self.loc if loc is None else loc)
        shape = [1] * len(loc.shape)
        shape[self._z_axis] = -1
        return keras.ops.reshape(z, shape) * loc

    def _as_rows(self, value: tf.Tensor) -> tf.Tensor:
        """Reshapes a tensor of the kernel's shape to `[D, M]`."""
        value = keras.ops.moveaxis(value, self._z_axis, 0)
        return keras.ops.reshape(value, (value.shape[0], -1))
