"""Collapsed divergence from a prior whose means are inferred."""

import copy
import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.math import collapsed
from tfp_refine.math import gaussian
from tfp_refine.regularizers import kl_regularizer
from tfp_refine.regularizers import prior_scale as prior_scale_lib

_LEARN = (None, "closed_form", "gradient")
_MIN_ALPHA_REG = 1e-4


@keras.saving.register_keras_serializable(package="tfp_refine")
class CollapsedMeanKL(kl_regularizer.KLRegularizer):
    """Collapsed KL divergence: each weight's prior mean is inferred (CM).

    The prior of a weight is `N(m, gamma)`, with `m ~ N(0, h)` of its own, and
    the bound is maximized over the posterior of `m` in closed form. That
    weakens the pull of the means to zero by `alpha_reg = gamma / (gamma + h)`,
    and leaves the pull of the variances to `gamma` as it is: not the same as a
    weaker KL. It costs as much as `GaussianKL`, and usually gives much better
    fits.

    With `m` integrated out, the prior is `N(0, gamma / alpha_reg)`: that is the
    prior that `prior` returns, and that refinement starts from. This divergence
    is larger by `(1 - alpha_reg) s / (2 gamma)` a weight of posterior variance
    `s`.

    Args:
        alpha_reg: In (0, 1]: 1 is `GaussianKL`; 0.2 and more regularize
            strongly, 0.025 and less hardly. If it is learned by gradient, its
            initial value. Defaults to `0.05`.
        prior_scale: `sqrt(gamma)`, standard deviation of a weight given its
            prior mean: a number, `"fan_in"` or `"he"`, as for `GaussianKL`.
            Defaults to `"fan_in"`.
        learn: How `alpha_reg` is learned (CM-OPT): `None`, not at all;
            `"gradient"`, by a variable trained with everything else; or
            `"closed_form"`, the best one at each step, from the means.
        exponential_rate: Rate, for each weight, of an exponential prior of a
            learned `alpha_reg`, whose negative log density is added to the
            divergence (the paper's plots: 5); `None` for none.
        shared: Whether all weight tensors that this object is given to share
            one learned `alpha_reg`, so that one object given to all layers of a
            model has one; its variable belongs to the first of them. Make a
            new object for another model, and copy such a model through a
            `.keras` file. Defaults to `False`: the kernel and
            the bias of a layer share one, if they learn it alike.

    Raises:
        ValueError: If an argument is invalid.

    Example:

    ```python
    model = tfp_refine.models.MLP(
        (13,), kernel_regularizer=tfp_refine.regularizers.CollapsedMeanKL(0.05)
    )
    ```

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX)
    """

    def __init__(
        self,
        alpha_reg: float = 0.05,
        prior_scale: float | str = "fan_in",
        learn: str | None = None,
        exponential_rate: float | None = None,
        shared: bool = False,
    ) -> None:
        alpha_reg = _validation.proportion("alpha_reg", alpha_reg)
        self.alpha_reg = _validation.scale("alpha_reg", alpha_reg)
        self.prior_scale = prior_scale_lib.check("prior_scale", prior_scale)
        if not isinstance(learn, str | None) or learn not in _LEARN:
            raise ValueError(
                f"`learn` must be one of {_LEARN}. Received: learn={learn!r}"
            )
        if learn is None and (exponential_rate is not None or shared):
            raise ValueError(
                "`exponential_rate` and `shared` are of a learned `alpha_reg`; "
                "give `learn`. Received: learn=None"
            )
        self.learn = learn
        self.exponential_rate = exponential_rate
        if exponential_rate is not None:
            self.exponential_rate = _validation.scale(
                "exponential_rate", exponential_rate
            )
        self.shared = bool(shared)
        self._group = _Group()

    def for_fan_in(self, fan_in: int) -> kl_regularizer.KLRegularizer:
        resolved = copy.copy(self)  # of the same group
        resolved.prior_scale = prior_scale_lib.resolve(self.prior_scale, fan_in)
        return resolved

    def prior_weights(self, site: kl_regularizer.PriorSite) -> tuple[Any, ...]:
        if self.learn is None:
            return ()
        group = self._group
        if not self.shared:
            # Kernel and bias may learn differently.
            key = (self.learn, self.alpha_reg, self.exponential_rate)
            group = site.shared.setdefault(key, _Group())
        group.sites.append((site.loc, prior_scale_lib.number(self.prior_scale)))
        if self.learn == "gradient" and group.logit is None:
            group.logit = site.add_weight(
                name=f"{site.name}_prior_alpha_reg_logit",
                shape=(),
                initializer=keras.initializers.Constant(_logit(self.alpha_reg)),
            )
        return (group,) if group.logit is None else (group.logit, group)

    def current_alpha_reg(
        self, loc: tf.Tensor, prior_weights: kl_regularizer.PriorWeights = ()
    ) -> tf.Tensor:
        """Returns the current `alpha_reg`, fixed or learned.

        Args:
            loc: Posterior means, `[...]`.
            prior_weights: As for `prior`.

        Returns:
            alpha_reg: In (0, 1], a scalar.
        """
        if self.learn == "closed_form":
            return self._solve(loc, prior_weights)
        if self.learn == "gradient" and prior_weights:
            logit = keras.ops.convert_to_tensor(prior_weights[0])
            alpha_reg = keras.ops.sigmoid(keras.ops.cast(logit, loc.dtype))
            return _MIN_ALPHA_REG + (1.0 - _MIN_ALPHA_REG) * alpha_reg
        return keras.ops.convert_to_tensor(self.alpha_reg, dtype=loc.dtype)

    def _solve(
        self, loc: tf.Tensor, prior_weights: kl_regularizer.PriorWeights
    ) -> tf.Tensor:
        """Returns the `alpha_reg` that the means of a group are best with."""
        sites = [(loc, prior_scale_lib.number(self.prior_scale))]
        if prior_weights:
            sites = prior_weights[-1].sites
        total, count = 0.0, 0
        for means, scale in sites:
            means = keras.ops.cast(
                keras.ops.convert_to_tensor(means), loc.dtype
            )
            total += keras.ops.sum(keras.ops.square(means / scale))
            count += int(np.prod(means.shape))
        inverse = total / count + 2.0 * (self.exponential_rate or 0.0)
        # At its best the bound does not change with it, to first order.
        return keras.ops.stop_gradient(
            1.0 / keras.ops.clip(inverse, 1.0, 1.0 / _MIN_ALPHA_REG)
        )

    def prior(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: kl_regularizer.PriorWeights = (),
    ) -> gaussian.Gaussian:
        gamma_root = keras.ops.convert_to_tensor(
            prior_scale_lib.number(self.prior_scale), dtype=loc.dtype
        )
        alpha_reg = self.current_alpha_reg(loc, prior_weights)
        return gaussian.Gaussian(
            keras.ops.zeros_like(gamma_root),
            gamma_root / keras.ops.sqrt(alpha_reg),
        )

    def elementwise(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: kl_regularizer.PriorWeights = (),
        draw: tf.Tensor | None = None,
    ) -> tf.Tensor:
        return collapsed.collapsed_mean_kl(
            gaussian.Gaussian(loc, scale),
            prior_scale_lib.number(self.prior_scale),
            self.current_alpha_reg(loc, prior_weights),
        )

    def total(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: kl_regularizer.PriorWeights = (),
        draw: tf.Tensor | None = None,
    ) -> tf.Tensor:
        return collapsed.total_collapsed_mean_kl(
            gaussian.Gaussian(loc, scale),
            prior_scale_lib.number(self.prior_scale),
            self.current_alpha_reg(loc, prior_weights),
        )

    def penalty(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: kl_regularizer.PriorWeights = (),
    ) -> tf.Tensor | None:
        rate = self.exponential_rate
        if rate is None:
            return None
        count = int(np.prod(loc.shape))
        whole = prior_weights[-1].size() if prior_weights else count
        # Each tensor of a group bears its part of the constant.
        constant = count / whole * math.log(rate * whole)
        alpha_reg = self.current_alpha_reg(loc, prior_weights)
        return rate * count * alpha_reg - constant


class _Group:
    """Weight tensors that share one learned `alpha_reg`.

    `sites` lists each tensor's means and its `sqrt(gamma)`; `logit` is the
    variable of an `alpha_reg` that is learned by gradient.
    """

    def __init__(self) -> None:
        self.sites: list[tuple[keras.Variable, float]] = []
        self.logit: keras.Variable | None = None

    def size(self) -> int:
        """Returns the number of weights."""
        return sum(int(np.prod(means.shape)) for means, _ in self.sites)


def _logit(alpha_reg: float) -> float:
    """Inverts `current_alpha_reg`, which never reaches 1."""
    proportion = (alpha_reg - _MIN_ALPHA_REG) / (1.0 - _MIN_ALPHA_REG)
    proportion = min(max(proportion, 1e-6), 1.0 - 1e-6)
    return math.log(proportion / (1.0 - proportion))
