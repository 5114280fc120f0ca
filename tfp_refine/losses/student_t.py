"""Student's t negative log likelihood, for regression with outliers."""

from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfp_refine import _validation
from tfp_refine.losses import likelihood

_MIN_DF = 2.0
_MIN_SCALE = 1e-6


@keras.saving.register_keras_serializable(package="tfp_refine")
class StudentTNLL(likelihood.LikelihoodLoss):
    """Negative log likelihood of Student's t distributions, in nats.

    Their tails are heavier than a Gaussian's: single outliers matter little.

    Args:
        df: Degrees of freedom; `None` if outputs hold raw values of them,
            `df = softplus(raw) + 2`, so that the variance is finite.
        scale: Scale, in the units of the targets; `None` if outputs hold raw
            values of it, `scale = softplus(raw) + 1e-6`.
        name: Name of the loss.
        reduction: As for `keras.losses.Loss`.
        dtype: Data type or dtype policy of the loss.

    Call arguments:
        y_true: Targets, `[batch_size, ..., D]`; `[batch_size, ...]` if `D` is
            1.
        y_pred: Locations, raw scales unless given, and raw degrees of freedom
            unless given, in this order: `[batch_size, ..., D]` to
            `[batch_size, ..., 3 * D]`.

    Raises:
        ValueError: If `df` or `scale` is not a positive finite number, or if
            the shapes disagree.

    Example:

    ```python
    model = keras.Sequential([keras.Input((13,)), keras.layers.Dense(2)])
    model.compile("adam", tfp_refine.losses.StudentTNLL(df=4.0))
    model.fit(x_train, y_train)
    ```
    """

    def __init__(
        self,
        df: float | None = None,
        scale: float | None = None,
        name: str = "student_t_nll",
        *,
        reduction: str | None = "sum_over_batch_size",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.df = None if df is None else _validation.positive("df", df)
        self.scale = (
            None if scale is None else _validation.positive("scale", scale)
        )

    def predictive(self, outputs: tf.Tensor) -> tfd.Distribution:
        names = ["a location"]
        if self.scale is None:
            names.append("a raw scale")
        if self.df is None:
            names.append("raw degrees of freedom")
        loc, *raw = likelihood.heads(self, outputs, names)
        if self.scale is None:
            scale = keras.ops.softplus(raw[0]) + _MIN_SCALE
        else:
            scale = keras.ops.full_like(loc, self.scale)
        if self.df is None:
            df = keras.ops.softplus(raw[-1]) + _MIN_DF
        else:
            df = keras.ops.full_like(loc, self.df)
        return tfd.StudentT(df, loc, scale)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "df": self.df, "scale": self.scale}
