"""Checks inputs of metrics and brings them to one shape, in float64."""

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from keras import ops

from tfp_refine.math import gaussian

# Loose enough for float16 outputs, tight enough to notice logits.
SUM_TOLERANCE = 1e-3


def as_array(name: str, value: npt.ArrayLike) -> tf.Tensor:
    """Converts an argument to a finite, nonempty float64 tensor."""
    try:
        array = np.asarray(value)
        texts = (
            [v for v in array.flat if isinstance(v, str | bytes)]
            if (array.dtype.kind == "O")
            else []
        )
        # The imaginary parts would be lost, and texts and dates be read.
        if array.dtype.kind in "cSUmM" or texts:
            raise TypeError(f"it holds {array.dtype}")
        tensor = ops.convert_to_tensor(value, dtype="float64")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be an array of numbers. Received: "
            f"{type(value).__name__} ({error})"
        ) from error
    if 0 in tensor.shape:
        raise ValueError(
            f"`{name}` must not be empty. Received: shape {tuple(tensor.shape)}"
        )
    if not bool(ops.all(ops.isfinite(tensor))):
        raise ValueError(
            f"`{name}` must be finite. Received: NaN or infinity among "
            f"its values, shape {tuple(tensor.shape)}"
        )
    return tensor


def as_draws(name: str, value: npt.ArrayLike) -> tf.Tensor:
    """Converts `[S, N, K]` or `[N, K]` to a float64 tensor `[S, N, K]`."""
    tensor = as_array(name, value)
    if len(tensor.shape) not in (2, 3):
        raise ValueError(
            f"`{name}` must have 3 axes, draws first, or 2 without draws. "
            f"Received: shape {tuple(tensor.shape)}"
        )
    return tensor if len(tensor.shape) == 3 else ops.expand_dims(tensor, 0)


def as_class_draws(
    name: str, value: npt.ArrayLike, from_logits: bool
) -> tf.Tensor:
    """Checks probabilities or logits, and converts them to `[S, N, C]`."""
    draws = as_draws(name, value)
    if draws.shape[-1] < 2:
        raise ValueError(
            f"`{name}` must have at least 2 classes on its last axis. "
            f"Received: shape {tuple(draws.shape)}"
        )
    if not from_logits:
        low = float(ops.min(draws))
        if low < 0.0:
            raise ValueError(
                f"`{name}` must hold probabilities (or set "
                f"from_logits=True). Received: {low}"
            )
        sums = ops.sum(draws, axis=-1)
        error = float(ops.max(ops.abs(sums - 1.0)))
        if error > SUM_TOLERANCE:
            raise ValueError(
                f"`{name}` must hold probabilities that sum to 1 over classes "
                "(or set from_logits=True). Received: sums from "
                f"{float(ops.min(sums)):.6g} to {float(ops.max(sums)):.6g}"
            )
    return draws


def as_class_probabilities(
    name: str, value: npt.ArrayLike, from_logits: bool
) -> tf.Tensor:
    """Converts probabilities or logits to probabilities `[S, N, C]`."""
    draws = as_class_draws(name, value, from_logits)
    return ops.softmax(draws) if from_logits else draws


def as_averaged_probabilities(
    name: str, value: npt.ArrayLike, from_logits: bool
) -> tf.Tensor:
    """Averages probabilities (from logits too) over draws, `[N, C]`."""
    draws = as_class_probabilities(name, value, from_logits)
    # A sure float32 output may be 1 + 1e-7.
    return ops.minimum(ops.mean(draws, axis=0), 1.0)


def as_labels(
    y_true: npt.ArrayLike, num_examples: int, num_classes: int
) -> tf.Tensor:
    """Converts class numbers or one-hot rows to class numbers, int32, `[N]`."""
    labels = as_array("y_true", y_true)
    shape = tuple(labels.shape)
    if shape == (num_examples, num_classes):
        return _from_one_hot(labels)
    if shape not in ((num_examples,), (num_examples, 1)):
        raise ValueError(
            "`y_true` must have shape [N], [N, 1] or [N, C] with "
            f"N={num_examples} and C={num_classes}, as the predictions. "
            f"Received: shape {shape}"
        )
    labels = ops.reshape(labels, (-1,))
    low, high = float(ops.min(labels)), float(ops.max(labels))
    if low < 0 or high >= num_classes:
        raise ValueError(
            f"`y_true` must hold class numbers in [0, {num_classes}). "
            f"Received: values from {low:g} to {high:g}"
        )
    if bool(ops.any(labels != ops.floor(labels))):
        raise ValueError(
            "`y_true` must hold whole class numbers. Received: fractions"
        )
    return ops.cast(labels, "int32")


def as_targets(y_true: npt.ArrayLike, loc: tf.Tensor) -> tf.Tensor:
    """Converts targets to float64, `[N, D]`, for predictions `[S, N, D]`.

    `[N]` is only read as `[N, 1]`: against `[N, 1]` predictions it would
    otherwise broadcast to `[N, N]`, without an error.
    """
    targets = as_array("y_true", y_true)
    shape = tuple(targets.shape)
    if len(shape) == 1:
        targets = ops.expand_dims(targets, -1)
    expected = tuple(loc.shape[1:])
    if tuple(targets.shape) != expected:
        raise ValueError(
            f"`y_true` must have shape {expected}, [N, D] as the predictions"
            f"{' (or [N])' if expected[1] == 1 else ''}. "
            f"Received: shape {shape}"
        )
    return targets


def as_gaussian_draws(
    y_true: npt.ArrayLike, loc: npt.ArrayLike, scale: npt.ArrayLike
) -> tuple[tf.Tensor, gaussian.Gaussian]:
    """Converts to targets `[N, D]` and Gaussians `[S, N, D]`, float64."""
    loc_shape = as_array("loc", loc).shape
    scale = as_array("scale", scale)
    axes = zip(reversed(scale.shape), reversed(loc_shape), strict=False)
    if len(scale.shape) > len(loc_shape) or any(
        size not in (1, loc_size) for size, loc_size in axes
    ):
        raise ValueError(
            f"`scale` must be broadcastable to the shape of `loc`, "
            f"{tuple(loc_shape)}. Received: shape {tuple(scale.shape)}"
        )
    low = float(ops.min(scale))
    if low <= 0.0:
        raise ValueError(f"`scale` must be positive. Received: {low}")
    loc = as_draws("loc", loc)
    scale = ops.broadcast_to(scale, loc.shape)
    return as_targets(y_true, loc), gaussian.Gaussian(loc, scale)


def _from_one_hot(rows: tf.Tensor) -> tf.Tensor:
    is_zero_or_one = ops.logical_or(rows == 0.0, rows == 1.0)
    sums_to_one = ops.sum(rows, axis=-1) == 1.0
    if not bool(ops.all(is_zero_or_one)) or not bool(ops.all(sums_to_one)):
        raise ValueError(
            "`y_true` of shape [N, C] must hold one-hot rows: one 1 and zeros. "
            "Received: other rows"
        )
    return ops.cast(ops.argmax(rows, axis=-1), "int32")
