"""A loss as a metric, without what regularizes."""

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="tfp_refine")
class MeanLoss(keras.metrics.MeanMetricWrapper):
    """Mean of a loss over all examples: that of the data alone.

    The loss that Keras reports as `"loss"` has the KL divergence in it.

    Args:
        loss: Keras loss, or its name, or a function of targets and outputs
            that returns values `[B]`.
        name: Name of the metric. Defaults to `"nll"`.
        dtype: Of its state.

    Raises:
        ValueError: If there is no such loss.

    Example:

    ```python
    loss = tfp_refine.losses.HeteroscedasticGaussianNLL()
    model.compile("adam", loss, metrics=[tfp_refine.metrics.MeanLoss(loss)])
    ```
    """

    def __init__(
        self, loss: Any, name: str = "nll", dtype: str | None = None
    ) -> None:
        self.loss = keras.losses.get(loss)
        if not callable(self.loss):
            raise ValueError(
                "`loss` must be a Keras loss, its name, or a function. "
                f"Received: loss={loss!r}"
            )
        is_loss = isinstance(self.loss, keras.losses.Loss)
        super().__init__(
            self.loss.call if is_loss else self.loss, name=name, dtype=dtype
        )

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": self.dtype,
            "loss": keras.losses.serialize(self.loss),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "MeanLoss":
        return cls(**config)
