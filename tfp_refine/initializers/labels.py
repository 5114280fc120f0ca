"""Class labels, checked."""

import numpy as np


def is_one_hot(y):
    """Tells which rows of an array `[N, C]` are one-hot, booleans `[N]`."""
    return np.all((y == 0) | (y == 1), axis=-1) & (np.sum(y, axis=-1) == 1)


def one_hot(y, num_outputs):
    """Checks labels and makes them one-hot, float64, `[N, C]`.

    A model with one output has two classes.
    """
    num_classes = max(num_outputs, 2)
    if y.shape[-1] not in (1, num_classes):
        raise ValueError(
            f"Labels must be integers, [N], or one-hot, [N, {num_classes}]. "
            f"Received: shape {y.shape}"
        )
    if y.shape[-1] == 1:
        y = _from_integers(y[:, 0], num_classes)
    elif not np.all(is_one_hot(y)):
        raise ValueError(
            "Labels of several columns must be one-hot, with one 1 and else 0. "
            f"Received: {y[~is_one_hot(y)][0]}"
        )
    if len(y) < num_classes:
        raise ValueError(
            "There must be at least as many examples as classes. Received: "
            f"{len(y)} examples for {num_classes} classes"
        )
    return np.asarray(y, np.float64)


def yes_or_no(y, num_outputs):
    """Checks labels 0 and 1, `[N, D]`, that do not exclude each other."""
    if y.shape[-1] != num_outputs or not np.all((y == 0) | (y == 1)):
        raise ValueError(
            f"Labels must be 0 or 1, one for each of {num_outputs} outputs. "
            f"Received: shape {y.shape}, values from {y.min():g} to "
            f"{y.max():g}"
        )
    return np.asarray(y, np.float64)


def _from_integers(labels, num_classes):
    broken = labels != np.round(labels)
    if np.any(broken):
        raise ValueError(
            "Labels must be integers, or one-hot. Received: "
            f"{labels[broken][0]}"
        )
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(
            f"Labels must be in [0, {num_classes}), as the model has so many "
            f"classes. Received: from {labels.min():g} to {labels.max():g}. (A "
            'regression on integers: `task="regression"`, or compile first.)'
        )
    return np.eye(num_classes)[labels.astype(np.int64)]
