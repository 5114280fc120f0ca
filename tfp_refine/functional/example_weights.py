"""Weights of examples, as `keras.Model.fit` has them."""

import numbers

import keras
import numpy as np
import tensorflow as tf


def checked(weights, is_part=False):
    """Returns weights (nested) in `floatx`, `[N]`, or `[N, ...]` of positions.

    Raises a `ValueError` if one is negative, or all are 0, which those of a
    part of the data may be.
    """
    weights = keras.tree.map_structure(_of_examples, weights)
    leaves = keras.tree.flatten(weights)
    low = min(float(tf.reduce_min(leaf)) for leaf in leaves)
    total = sum(float(tf.reduce_sum(leaf)) for leaf in leaves)
    if low < 0.0 or (total == 0.0 and not is_part):
        raise ValueError(
            "`sample_weight` must hold numbers of which none is negative, and "
            f"not all are 0. Received: least value {low:g}, sum {total:g}"
        )
    return weights


def one_each(weights):
    """Raises a `ValueError` unless weights are one for each example, `[N]`."""
    shapes = [tuple(leaf.shape) for leaf in keras.tree.flatten(weights)]
    if len(shapes) != 1 or len(shapes[0]) != 1:
        raise ValueError(
            "`sample_weight` must be one number for each example, `[N]`. "
            f"Received: shape {', '.join(map(str, shapes))}"
        )


def apart(data):
    """Takes weights `[N]` off data `(x, y, weight)`; those of positions stay.

    Returns the examples with a weight above 0, and their weights; or all of
    them, and `None`.
    """
    if len(data) == 2 or keras.tree.is_nested(data[2]):
        return data, None
    if data[2].shape.rank > 1:
        return data, None
    seen = data[2] > 0.0
    *data, weights = keras.tree.map_structure(
        lambda leaf: tf.boolean_mask(leaf, seen), data
    )
    return tuple(data), weights.numpy()


def of_classes(y, class_weight):
    """Returns the weight of each example's class, `[N]`.

    Classes are numbers, `[N]` or `[N, 1]`, or one-hot rows, `[N, C]`. A class
    that the dict `class_weight` leaves out has the weight 1, as in Keras.
    """
    if not isinstance(class_weight, dict) or not class_weight:
        raise ValueError(
            "`class_weight` must be a dict of class numbers to weights. "
            f"Received: class_weight={class_weight!r}"
        )
    classes = _classes(y)
    weights = np.ones(len(classes), keras.config.floatx())
    for number, weight in class_weight.items():
        if not is_weight(weight):
            raise ValueError(
                "`class_weight` must hold finite numbers of which none is "
                f"negative. Received: {weight!r} for class {number!r}"
            )
        weights[classes == number] = weight
    return tf.constant(weights)


def is_weight(value):
    """Checks whether a value is a finite number, and not negative."""
    is_number = isinstance(value, numbers.Real)
    with np.errstate(over="ignore"):
        return is_number and value >= 0.0 and np.isfinite(np.float32(value))


def _classes(y):
    if keras.tree.is_nested(y):
        raise ValueError(
            "`class_weight` is for models of one output; for several, give "
            "`sample_weight`. Received: y, a structure of "
            f"{len(keras.tree.flatten(y))} targets"
        )
    rows = np.asarray(y)
    if rows.ndim == 2 and rows.shape[1] > 1:
        if np.all(np.sort(rows, axis=1) == np.eye(rows.shape[1])[-1]):
            return np.argmax(rows, axis=1)
    elif rows[:1].size == 1:
        classes = rows.reshape(-1)
        if np.all((classes == np.floor(classes)) & (classes >= 0)):
            return classes
    raise ValueError(
        "`class_weight` needs targets that are classes: numbers, `[N]`, or "
        "one-hot rows, `[N, C]`. For others, give `sample_weight`. Received: "
        f"y of shape {rows.shape}, with values from {np.min(rows):g} to "
        f"{np.max(rows):g}"
    )


def _of_examples(leaf):
    leaf = tf.cast(leaf, keras.config.floatx())
    is_one = all(size == 1 for size in leaf.shape[1:])
    return tf.reshape(leaf, [-1]) if is_one else leaf
