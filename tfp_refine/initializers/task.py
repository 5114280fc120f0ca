"""Infers the task of a model from its loss and its data."""

import keras
import numpy as np

from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine.initializers import labels
from tfp_refine.initializers import targets

TASKS = ("classification", "regression")
# Of the noise, where no likelihood says: that of the paper's code.
_VARIANCE = float(np.exp(-2.0))


def layer_targets(
    model, y, weights, outputs, task, noise_variance, concentration, center
):
    """Makes the targets of a model's layers from `y`, `[N]` or `[N, D]`.

    `weights` of examples are `[N]`, positive; `outputs` are the model's for
    some examples; `task` is one of `TASKS` or `None`.
    """
    y, num_outputs = _matrix(y), _num_outputs(outputs)
    weights = weights[:, np.newaxis]
    loss = getattr(model, "loss", None)
    if loss is not None:
        loss = functional.objective.resolve(model)
    if task is None:
        task = _task_of_loss(loss) or _task_of_targets(model, y, num_outputs)
    if task == "classification":
        is_binary = isinstance(loss, losses.BernoulliNLL) or (
            "binarycrossentropy" in _name(loss)
        )
        if is_binary and num_outputs > 1:
            y = labels.yes_or_no(y, num_outputs)
            return targets.of_yes_or_no(y, weights, concentration, center)
        return targets.of_classes(
            y, weights, num_outputs, concentration, center
        )
    num_targets = y.shape[-1]
    if num_outputs not in (num_targets, 2 * num_targets):
        raise ValueError(
            "The model must have an output for each target, or two with that "
            f"of the noise. Received: {num_outputs} outputs, targets of shape "
            f"{y.shape}"
        )
    has_noise = num_outputs == 2 * num_targets
    if has_noise and not isinstance(loss, losses.HeteroscedasticGaussianNLL):
        loss = losses.HeteroscedasticGaussianNLL()
    if noise_variance is None:
        noise_variance = _noise_variance(loss, outputs)
    raw_noise = loss.raw_noise(noise_variance**0.5) if has_noise else None
    return targets.of_values(y, weights, noise_variance, raw_noise, center)


def _matrix(y):
    if not hasattr(y, "shape") or len(y.shape) > 2:
        raise ValueError(
            "The targets must be one array, [N] or [N, D]. Received: "
            f"{keras.tree.map_structure(np.shape, y)}"
        )
    y = np.asarray(y)
    return y[:, np.newaxis] if y.ndim == 1 else y


def _num_outputs(outputs):
    if not hasattr(outputs, "shape") or len(outputs.shape) != 2:
        raise ValueError(
            "The model must have one output, [N, D]. Received: "
            f"{keras.tree.map_structure(np.shape, outputs)}"
        )
    return outputs.shape[-1]


def _name(loss):
    """Returns the name in the code of a loss, an object or a function."""
    names = [getattr(loss, "__name__", ""), type(loss).__name__]
    return "".join(names).lower().replace("_", "")


def _task_of_loss(loss):
    name = _name(loss)
    is_of_classes = isinstance(
        loss, losses.BernoulliNLL | losses.CategoricalNLL
    )
    if is_of_classes or "crossentropy" in name or "hinge" in name:
        return "classification"
    if isinstance(loss, losses.GaussianLoss) or "squared" in name:
        return "regression"
    if isinstance(loss, losses.LikelihoodLoss):
        raise ValueError(
            "The targets of layers are those of classes or of Gaussian values. "
            f"Received: loss={loss!r}. With targets on the scale of the "
            'outputs as `y`, pass `task="regression"`.'
        )
    return None


def _task_of_targets(model, y, num_outputs):
    """Guesses: integers for several outputs, 0 and 1 for one, or one-hot."""
    if any(
        isinstance(layer, layers.HomoscedasticNoise)
        for layer in model._flatten_layers()
    ):
        return "regression"
    if y.shape[-1] > 1:
        is_class = y.shape[-1] == num_outputs and np.all(labels.is_one_hot(y))
    elif y.dtype.kind not in "biu":
        is_class = False
    else:
        is_class = num_outputs > 1 or set(np.unique(y)) <= {0, 1}
    return "classification" if is_class else "regression"


def _noise_variance(loss, outputs):
    """The variance that the likelihood has now, its mean over examples."""
    if isinstance(loss, losses.GaussianLoss):
        _, scale = loss.loc_and_scale(outputs)
        return float(np.mean(np.square(np.asarray(scale, np.float64))))
    if "squared" in _name(loss):
        return 0.5  # whose log density is minus the square
    return _VARIANCE
