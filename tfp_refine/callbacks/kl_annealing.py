"""A factor on the KL divergence that changes during training."""

from collections.abc import Callable
from typing import Any
from typing import TypeAlias

import keras

from tfp_refine import _validation
from tfp_refine import layers

Schedule: TypeAlias = Callable[[float], float]
Logs: TypeAlias = dict[str, Any] | None


class KLAnnealing(_validation.Shown, keras.callbacks.Callback):
    """Sets the factor on the KL divergence of all layers by a schedule.

    With a small factor the means fit the data first; only with a factor of 1 is
    the loss a bound. The last value of the schedule stays. The factor is in the
    logs, as `"kl_scale"`.

    Args:
        schedule: Function of the time, in epochs from 0, that returns the
            factor: not negative. `linear_warmup` makes one.
        frequency: "epoch", or "batch": at the start of each, or of each
            execution of several steps. Data without a known number of batches
            are counted in the first epoch, which has one factor throughout.

    Raises:
        ValueError: If an argument is invalid; in training, if the schedule
            gives no factor, or the model has no variational layers.

    Example:

    ```python
    annealing = tfp_refine.callbacks.KLAnnealing(
        tfp_refine.callbacks.linear_warmup(num_epochs=20)
    )
    model.fit(x, y, epochs=100, callbacks=[annealing])
    ```
    """

    def __init__(self, schedule: Schedule, frequency: str = "epoch") -> None:
        super().__init__()
        if not callable(schedule):
            raise ValueError(
                "`schedule` must be a function of the epoch. "
                f"Received: schedule={schedule!r}"
            )
        self.schedule = schedule
        self.frequency = _validation.one_of(
            "frequency", frequency, ("epoch", "batch")
        )
        self._epoch, self._batches = 0, 0
        self._kl_scale: float | None = None
        self._batches_of_epoch: int | None = None

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._epoch = epoch
        self._set(float(epoch))

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        steps = self.params.get("steps") or self._batches_of_epoch
        if self.frequency == "batch" and steps:
            self._set(self._epoch + batch / steps)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._batches = batch + 1

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._batches_of_epoch = self._batches
        if logs is not None:
            logs["kl_scale"] = self._kl_scale

    def _set(self, time: float) -> None:
        kl_scale = self.schedule(time)
        try:
            kl_scale = float(kl_scale)
        except (TypeError, ValueError) as error:
            raise ValueError(
                "`schedule` must return a number. "
                f"Received: {kl_scale!r}, at time {time:g}"
            ) from error
        layers.set_kl_scale(self.model, kl_scale)
        self._kl_scale = kl_scale


def linear_warmup(num_epochs: float, zero_epochs: float = 0) -> Schedule:
    """Makes a schedule that rises from 0 to 1, and stays there.

    Args:
        num_epochs: Epochs of the rise.
        zero_epochs: Epochs before, with a factor of 0. Defaults to `0`.

    Returns:
        schedule: Function of the time, in epochs, that returns the factor.

    Raises:
        ValueError: If `num_epochs` is not positive, or `zero_epochs` negative.

    Example:

    ```python
    schedule = tfp_refine.callbacks.linear_warmup(20, zero_epochs=10)
    schedule(15.0)  # 0.25
    ```
    """
    _validation.positive("num_epochs", num_epochs)
    _validation.not_negative("zero_epochs", zero_epochs)
    return lambda time: min(max((time - zero_epochs) / num_epochs, 0.0), 1.0)
