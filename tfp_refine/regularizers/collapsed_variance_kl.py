"""Collapsed divergence from a prior whose variances are inferred."""

from typing import Any

import keras

from tfp_refine.regularizers import collapsed_mean_variance_kl


@keras.saving.register_keras_serializable(package="tfp_refine")
class CollapsedVarianceKL(collapsed_mean_variance_kl.CollapsedMeanVarianceKL):
    """Collapsed KL divergence: each weight's prior variance is inferred (CV).

    As `CollapsedMeanVarianceKL`, with prior means that are fixed at zero.

    Args:
        shape: Shape of the precisions' prior, positive. Defaults to `0.5`.
        rate: Its rate, in units of a variance, positive. Defaults to `0.01`.

    Raises:
        ValueError: If an argument is invalid.

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX)
    """

    def __init__(self, shape: float = 0.5, rate: float = 0.01) -> None:
        super().__init__(shape, rate, delta=1.0)

    def get_config(self) -> dict[str, Any]:
        return {"shape": self.shape, "rate": self.rate}
