"""The parts of the bound, in the logs of training."""

from typing import Any

import keras

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import metrics


class ELBOLogger(_validation.Shown, keras.callbacks.Callback):
    """Logs the KL divergence and the evidence lower bound after each epoch.

    Adds to the logs, and so to the history and to the logs of callbacks that
    follow in the list: `"kl"`, the divergence of all weights from their priors,
    nats; `"elbo"`, `-num_train_examples * nll - kl`, whatever `kl_scale` is;
    with validation data `"val_elbo"`, likewise with `val_nll`: the bound if the
    training data were predicted equally well. `nll` is that of the epoch's
    batches, in training, so it lags behind; `val_nll` does not. The metric does
    not see weights of examples: `tfr.elbo` computes the bound with them.

    Args:
        nll: Name in the logs of the mean negative log likelihood: that of a
            metric of the model, such as `metrics.MeanLoss`.

    Raises:
        ValueError: In training, if the logs lack the metric, or the model
            has no variational layers, they do not know the number of training
            examples, the metric is the mean of a Keras loss over outputs, or
            the model was compiled with `loss_weights`, or losses of several
            outputs.

    Example:

    ```python
    loss = tfp_refine.losses.HeteroscedasticGaussianNLL()
    model.compile("adam", loss, metrics=[tfp_refine.metrics.MeanLoss(loss)])
    model.fit(x, y, callbacks=[tfp_refine.callbacks.ELBOLogger()])
    ```
    """

    def __init__(self, nll: str = "nll") -> None:
        super().__init__()
        self.nll = _validation.instance("nll", nll, str, "the name of a metric")
        self._seeds = keras.random.SeedGenerator(0)

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        logs = {} if logs is None else logs
        if self.nll not in logs:
            raise ValueError(
                f"ELBOLogger finds no '{self.nll}' in the logs: compile the "
                "model with `metrics=[tfp_refine.metrics.MeanLoss(loss)]`, or "
                "pass the name of a metric that is one. "
                f"Received: logs of {sorted(logs)}"
            )
        self._check_sum()
        count = _num_train_examples(self.model)
        kl = self._kl()
        logs["kl"] = kl
        for prefix in ("", "val_"):
            if f"{prefix}{self.nll}" in logs:
                nll = float(logs[f"{prefix}{self.nll}"])
                logs[f"{prefix}elbo"] = -count * nll - kl

    def _check_sum(self) -> None:
        """Refuses the mean of a Keras loss over outputs, or one of a sum."""
        outputs: Any = getattr(self.model, "outputs", None) or ()
        loss = getattr(self.model, "loss", None)
        factors = functional.objective.compiled_loss_weights(self.model)
        if len(keras.tree.flatten(loss)) > 1 or (
            loss is not None and (len(outputs) > 1 or factors is not None)
        ):
            raise ValueError(
                "ELBOLogger knows the loss of one output, of weight 1. For the "
                "bound of several, use `tfp_refine.elbo`. Received: a model "
                f"compiled with loss={loss!r}, loss_weights={factors!r}"
            )
        for compiled in self.model.metrics:
            for metric in getattr(compiled, "metrics", ()):
                if (
                    metric.name == self.nll
                    and isinstance(metric, metrics.MeanLoss)
                    and len(outputs) == 1
                ):
                    functional.objective.check_likelihood(
                        metric.loss, outputs[0]
                    )

    def _kl(self) -> float:
        """Computes the divergence of all weights from their priors, nats."""
        total, seen = 0.0, set()
        for layer in self.model._flatten_layers():
            if isinstance(layer, layers.ConcreteDropout):
                total += float(layer.kl())
            for weight in getattr(layer, "variational_weights", ()):
                if id(weight.loc) not in seen:
                    seen.add(id(weight.loc))
                    total += float(weight.kl(seed=self._seeds, limited=True))
        return total


def _num_train_examples(model: keras.Model) -> int:
    """Returns the number that all variational layers agree on."""
    counts = {
        layer.num_train_examples
        for layer in model._flatten_layers()
        if hasattr(layer, "num_train_examples")
    }
    if len(counts) != 1 or None in counts:
        raise ValueError(
            "All variational layers must know the same number of training "
            "examples: call `tfp_refine.layers.set_num_train_examples`. "
            f"Received: {counts or 'no such layers'}"
        )
    return counts.pop()
