"""Collapsed divergences from priors whose variances are inferred."""

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.math import collapsed
from tfp_refine.math import gaussian
from tfp_refine.regularizers import kl_regularizer


@keras.saving.register_keras_serializable(package="tfp_refine")
class CollapsedMeanVarianceKL(kl_regularizer.KLRegularizer):
    """Collapsed KL divergence: prior means and variances are inferred (CMV).

    The prior of a weight is `N(m, 1 / tau)`, with `m ~ N(0, 1 / (t tau))` and
    `tau ~ Gamma(shape, rate)` of its own, and the bound is maximized over the
    posterior of both in closed form. A weight that the data do not need goes to
    `N(0, rate / shape)`, a spike if that is small.

    With both integrated out, the prior is a Student t: posteriors trained with
    it cannot be refined.

    Args:
        shape: Shape of the precisions' prior, positive. Defaults to `0.5`.
        rate: Its rate, in units of a variance, positive. Defaults to `0.01`.
        delta: `t / (1 + t)`, in (0, 1]: factor on the pull of the means to
            zero, as `alpha_reg` of `CollapsedMeanKL`. Defaults to `0.05`.

    Raises:
        ValueError: If an argument is invalid.

    Example:

    ```python
    model = tfp_refine.models.MLP(
        (13,),
        kernel_regularizer=tfp_refine.regularizers.CollapsedMeanVarianceKL(),
    )
    ```

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX)
    """

    def __init__(
        self, shape: float = 0.5, rate: float = 0.01, delta: float = 0.05
    ) -> None:
        self.shape = _validation.scale("shape", shape)
        self.rate = _validation.scale("rate", rate)
        self.delta = _validation.proportion("delta", delta)

    def prior(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: kl_regularizer.PriorWeights = (),
    ) -> gaussian.Gaussian:
        raise ValueError(
            f"The prior of {type(self).__name__} is a Student t, not Gaussian."
        )

    def elementwise(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: kl_regularizer.PriorWeights = (),
        draw: tf.Tensor | None = None,
    ) -> tf.Tensor:
        return collapsed.collapsed_mean_variance_kl(
            gaussian.Gaussian(loc, scale), self.shape, self.rate, self.delta
        )


@keras.saving.register_keras_serializable(package="tfp_refine")
class CollapsedVarianceKL(CollapsedMeanVarianceKL):
    """Collapsed KL divergence: each weight's prior variance is inferred (CV).

    As `CollapsedMeanVarianceKL`, with prior means that are fixed at zero.

    Args:
        shape: Shape of the precisions' prior, positive. Defaults to `0.5`.
        rate: Its rate, in units of a variance, positive. Defaults to `0.01`.

    Raises:
        ValueError: If an argument is invalid.

    Example:

    ```python
    model = tfp_refine.models.MLP(
        (13,), kernel_regularizer=tfp_refine.regularizers.CollapsedVarianceKL()
    )
    ```

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX)
    """

    def __init__(self, shape: float = 0.5, rate: float = 0.01) -> None:
        super().__init__(shape, rate, delta=1.0)
