"""KL divergence from a Gaussian prior whose scale is learned."""

import copy
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_refine import _validation
from tfp_refine.math import gaussian
from tfp_refine.math import softplus
from tfp_refine.regularizers import kl_regularizer
from tfp_refine.regularizers import prior_scale as prior_scale_lib


@keras.saving.register_keras_serializable(package="tfp_refine")
class EmpiricalBayesKL(kl_regularizer.KLRegularizer):
    """KL divergence from `N(0, v)` with one learned `v` for each weight tensor.

    With `closed_form=False` the prior's scale is a variable of the layer,
    trained by gradient with everything else. With `closed_form=True` it has no
    variable: `v = mean(loc**2 + scale**2)` is the variance that minimizes the
    KL divergence, and where the gradient version converges to.

    Args:
        closed_form: Whether to solve for the prior's parameters instead of
            training them. Defaults to `False`.
        initial_prior_scale: Standard deviation that training starts from: a
            number, `"fan_in"` or `"he"`, as for `GaussianKL`; of no effect with
            `closed_form=True`. Defaults to `1.0`.
        learn_mean: Whether the prior has a learned mean, one for each weight
            tensor, in place of zero. Defaults to `False`.
        inverse_gamma: Concentration and scale (in units of a variance) of an
            inverse Gamma hyperprior of `v`, whose negative log density is added
            to the divergence; `None` for none. `(2.01, 0.101)` is a weak one
            with mean 0.1.
        trainable: Whether training by gradient changes the prior's variables.
            With `False`, `callbacks.PriorVarianceOptimization` alone does.
            Defaults to `True`.

    Raises:
        ValueError: If `initial_prior_scale` is neither a positive finite number
            nor a name, `inverse_gamma` does not hold two such numbers, or
            `trainable=False` goes with `closed_form=True`, which has no
            variables.

    Example:

    ```python
    model = tfp_refine.models.MLP(
        (13,),
        kernel_regularizer=tfp_refine.regularizers.EmpiricalBayesKL(
            closed_form=True
        ),
    )
    ```

    Reference:
        - [Havasi et al., 2021](https://doi.org/10.3390/e23111475), section 4
    """

    def __init__(
        self,
        closed_form: bool = False,
        initial_prior_scale: float | str = 1.0,
        learn_mean: bool = False,
        inverse_gamma: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        self.closed_form = bool(closed_form)
        self.initial_prior_scale = prior_scale_lib.check(
            "initial_prior_scale", initial_prior_scale
        )
        self.learn_mean = bool(learn_mean)
        self.inverse_gamma = _check_inverse_gamma(inverse_gamma)
        self.trainable = bool(trainable)
        if self.closed_form and not self.trainable:
            raise ValueError(
                "`trainable=False` is for a prior with variables, of "
                "`closed_form=False`. Received: closed_form=True"
            )

    def for_fan_in(self, fan_in: int) -> kl_regularizer.KLRegularizer:
        resolved = copy.copy(self)
        resolved.initial_prior_scale = prior_scale_lib.resolve(
            self.initial_prior_scale, fan_in
        )
        return resolved

    def prior_weights(self, site: kl_regularizer.PriorSite) -> tuple[Any, ...]:
        if self.closed_form:
            return ()
        raw = softplus.inverse_of_float(
            prior_scale_lib.number(self.initial_prior_scale)
        )
        scale = site.add_weight(
            name=f"{site.name}_prior_untransformed_scale",
            shape=(),
            initializer=keras.initializers.Constant(raw),
            trainable=self.trainable,
        )
        if not self.learn_mean:
            return (scale,)
        loc = site.add_weight(
            name=f"{site.name}_prior_loc",
            shape=(),
            initializer="zeros",
            trainable=self.trainable,
        )
        return scale, loc

    def best_prior_weights(
        self, loc: tf.Tensor, scale: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        if self.closed_form:
            raise ValueError(
                "EmpiricalBayesKL with `closed_form=True` has no prior scale "
                "to set: it is the best one at each step already."
            )
        best = self._solve(loc, scale)
        raw = softplus.inverse(best.scale)
        return (raw, best.loc) if self.learn_mean else (raw,)

    def prior(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: kl_regularizer.PriorWeights = (),
    ) -> gaussian.Gaussian:
        if self.closed_form:
            return self._solve(loc, scale)
        if prior_weights:
            raw, *means = (
                keras.ops.cast(keras.ops.convert_to_tensor(value), loc.dtype)
                for value in prior_weights
            )
            prior_scale = keras.ops.softplus(raw)
        else:
            means = []
            prior_scale = keras.ops.convert_to_tensor(
                prior_scale_lib.number(self.initial_prior_scale),
                dtype=loc.dtype,
            )
        prior_loc = means[0] if means else keras.ops.zeros_like(prior_scale)
        return gaussian.Gaussian(prior_loc, prior_scale)

    def _solve(self, loc: tf.Tensor, scale: tf.Tensor) -> gaussian.Gaussian:
        """Returns the prior that posterior and hyperprior are best with."""
        mean = keras.ops.mean(loc) if self.learn_mean else 0.0
        energy = gaussian.second_moment(gaussian.Gaussian(loc - mean, scale))
        if self.inverse_gamma is None:
            variance = keras.ops.mean(energy)
        else:
            concentration, rate = self.inverse_gamma
            count = keras.ops.cast(keras.ops.size(loc), loc.dtype)
            variance = (keras.ops.sum(energy) + 2.0 * rate) / (
                count + 2.0 * (concentration + 1.0)
            )
        prior_scale = keras.ops.sqrt(variance)
        return gaussian.Gaussian(
            keras.ops.zeros_like(prior_scale) + mean, prior_scale
        )

    def penalty(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: kl_regularizer.PriorWeights = (),
    ) -> tf.Tensor | None:
        if self.inverse_gamma is None:
            return None
        concentration, rate = (
            keras.ops.convert_to_tensor(value, dtype=loc.dtype)
            for value in self.inverse_gamma
        )
        variance = keras.ops.square(self.prior(loc, scale, prior_weights).scale)
        hyperprior = tfp.distributions.InverseGamma(concentration, rate)
        return -hyperprior.log_prob(variance)


def _check_inverse_gamma(value: Any) -> list[float] | None:
    if value is None:
        return None
    try:
        concentration, scale = value
    except (TypeError, ValueError) as error:
        raise ValueError(
            "`inverse_gamma` must hold a concentration and a scale, or be None."
            f" Received: inverse_gamma={value!r}"
        ) from error
    return [
        _validation.scale("inverse_gamma", concentration),
        _validation.scale("inverse_gamma", scale),
    ]
