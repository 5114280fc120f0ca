"""Priors that are fitted to the posterior in the course of training."""

from typing import Any

import keras

from tfp_refine import _validation

Logs = dict[str, Any] | None


class PriorVarianceOptimization(_validation.Shown, keras.callbacks.Callback):
    """Sets the prior's variances to the best ones, every few epochs or steps.

    In networks with more weights than examples, the divergence from a fixed
    prior dominates the bound. This callback alternates between training and
    the maximization of the bound over the variance of each weight tensor's
    prior: `mean(loc**2 + scale**2)`, or around the prior's mean if that is
    learned too. The divergence never rises by that.

    Priors must be `regularizers.EmpiricalBayesKL(trainable=False)`, whose
    scales are variables that are saved with the model and that training leaves
    alone. Where training by gradient changes them too (`trainable=True`), it
    goes on from the best ones. Initializers that look at data, such as
    `initializers.IBLM`, come before `fit`.

    Args:
        every: Epochs (or steps) from one update to the next. Defaults to `1`.
        warmup: Epochs (or steps) before the first update, in which means and
            scales move away from their initial values; 0 for an update before
            the first step. Defaults to `1`.
        frequency: Unit of both: "epoch", the model's number of it; or "batch",
            the steps of one call of `fit`. Defaults to `"epoch"`.

    Raises:
        ValueError: If an argument is invalid; in training, if the model has no
            variational weights, or one with a prior without a scale to set, or
            with a posterior that is not Gaussian.

    Example:

    ```python
    model = tfp_refine.models.MLP(
        (13,),
        kernel_regularizer=tfp_refine.regularizers.EmpiricalBayesKL(
            initial_prior_scale="fan_in", trainable=False
        ),
        bias_regularizer=tfp_refine.regularizers.EmpiricalBayesKL(
            trainable=False
        ),
        num_train_examples=len(x),
    )
    model.compile("adam", tfp_refine.losses.GaussianNLL(0.5))
    tfp_refine.initializers.IBLM()(model, x, y)
    optimization = tfp_refine.callbacks.PriorVarianceOptimization(warmup=10)
    model.fit(x, y, epochs=100, callbacks=[optimization])
    ```

    Reference:
        - [Graves, 2011](https://papers.nips.cc/paper/4329)
        - [Rossi et al., 2019](https://arxiv.org/abs/1810.08083)
    """

    def __init__(
        self, every: int = 1, warmup: int = 1, frequency: str = "epoch"
    ) -> None:
        super().__init__()
        self.every = _validation.positive_integer("every", every)
        self.warmup = _validation.not_negative_integer("warmup", warmup)
        self.frequency = _validation.one_of(
            "frequency", frequency, ("epoch", "batch")
        )
        self._weights: list[Any] = []
        self._last: int | None = None
        self._steps = self._steps_before = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        self._weights = _weights(self.model)
        self._last, self._steps, self._steps_before = None, 0, 0
        if self.frequency == "batch":
            self._reach(0)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        if self.frequency == "epoch" and self._last is None:
            self._reach(epoch)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self.frequency == "batch":
            self._steps = self._steps_before + batch + 1
            self._reach(self._steps)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.frequency == "epoch":
            self._reach(epoch + 1)
        else:
            self._steps_before = self._steps

    def _reach(self, count: int) -> None:
        """Updates the priors if that is due after `count` epochs or steps.

        One execution may be of several steps.
        """
        number = (count - self.warmup) // self.every
        if self._last is None:  # which was due just before
            self._last = (count - self.warmup - 1) // self.every
        if number >= 0 and number > self._last:
            for weight in self._weights:
                _update(weight)
        self._last = number


def _weights(model: keras.Model) -> list[Any]:
    """Returns the weights that have a prior, each once."""
    found = {
        id(weight.loc): weight
        for layer in model._flatten_layers()
        for weight in getattr(layer, "variational_weights", ())
        if weight.regularizer is not None
    }
    if not found:
        raise ValueError(
            "PriorVarianceOptimization finds no weights with a prior in the "
            f"model '{model.name}'."
        )
    for weight in found.values():
        if not weight.is_gaussian:
            raise ValueError(
                "PriorVarianceOptimization is for Gaussian posteriors. "
                f"Received: weight '{weight.loc.path}' of posterior "
                f"'{weight.family}'"
            )
        try:
            weight.regularizer.best_prior_weights(weight.loc, weight.scale)
        except ValueError as error:
            raise ValueError(
                f"{error} Take `EmpiricalBayesKL(trainable=False)` for weight "
                f"'{weight.loc.path}', of which PriorVarianceOptimization sets "
                "the prior."
            ) from error
    return list(found.values())


def _update(weight: Any) -> None:
    best = weight.regularizer.best_prior_weights(
        keras.ops.convert_to_tensor(weight.loc), weight.scale
    )
    for variable, value in zip(weight.prior_weights, best, strict=True):
        variable.assign(value)
