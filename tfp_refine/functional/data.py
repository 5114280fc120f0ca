"""Data as arrays: checked once, before any long work."""

import keras
import numpy as np
import tensorflow as tf


def examples(x, y=None):
    """Turns training data into tensors, floats in Keras' `floatx`.

    They are arrays `[N, ...]` (or nested), or a finite, batched
    `tf.data.Dataset` of `(x, y)`. Returns `x`, `y` and `N`. Raises a
    `ValueError` unless both are finite numbers and of the same length.
    """
    if isinstance(x, tf.data.Dataset):
        if y is not None:
            raise ValueError(
                "`y` must be None when `x` is a tf.data.Dataset of (x, y)."
            )
        x, y = _read(x)
    elif y is None:
        raise ValueError(
            "`y` must be given, unless `x` is a tf.data.Dataset of (x, y). "
            f"Received: y=None, x of type {type(x).__name__}"
        )
    x, y = _tensors("x", x), _tensors("y", y)
    lengths = {
        name: [leaf.shape[0] for leaf in keras.tree.flatten(value)]
        for name, value in (("x", x), ("y", y))
    }
    if len(set(lengths["x"] + lengths["y"])) != 1:
        raise ValueError(
            "`x` and `y` must have the same number of examples. "
            f"Received: {lengths['x']} in x and {lengths['y']} in y. (A "
            "tf.data.Dataset must be batched, as for `fit`.)"
        )
    return x, y, lengths["x"][0]


def inputs(x):
    """Turns inputs `[N, ...]` (or nested) into tensors, as `examples`."""
    if isinstance(x, tf.data.Dataset):
        raise ValueError(
            "`x` must be an array, or a nested structure of arrays. "
            "Received: a tf.data.Dataset"
        )
    x = _tensors("x", x)
    lengths = {leaf.shape[0] for leaf in keras.tree.flatten(x)}
    if len(lengths) != 1:
        raise ValueError(
            "All inputs must have the same number of examples. "
            f"Received: {sorted(lengths)}"
        )
    return x


def blocks(x, batch_size):
    """Yields a slice of the examples and their inputs, `[B, ...]` (or nested).

    Inputs are as for `inputs`, or a finite `tf.data.Dataset` of batches of
    them, alone or followed by targets and sample weights, which keeps its own
    batches; no more than one is held.
    """
    if not isinstance(x, tf.data.Dataset):
        x = inputs(x)
        count = num_examples(x)
        for begin in range(0, count, batch_size):
            rows = slice(begin, min(begin + batch_size, count))
            yield rows, take(x, rows)
        return
    if x.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "`x` must be a finite dataset. Received an endless one; leave out "
            "`repeat()`."
        )
    begin = 0
    for element in x:
        if isinstance(element, tuple):
            element = element[0]
        block = inputs(element)
        rows = slice(begin, begin + num_examples(block))
        yield rows, block
        begin = rows.stop
    if begin == 0:
        raise ValueError("`x` must not be an empty dataset.")


def num_examples(x):
    """Returns `N`, of tensors `[N, ...]` (or nested)."""
    return keras.tree.flatten(x)[0].shape[0]


def specs(x):
    """Returns the `tf.TensorSpec`s (nested) of any number of such rows."""
    return keras.tree.map_structure(
        lambda leaf: tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype), x
    )


def take(x, rows):
    """Takes a slice of the examples, of tensors `[N, ...]` (or nested)."""
    return keras.tree.map_structure(lambda leaf: leaf[rows], x)


def check_model(model):
    """Raises a `ValueError` unless `model` is a built `keras.Model`."""
    if not isinstance(model, keras.Model):
        raise ValueError(
            f"`model` must be a keras.Model. Received: {type(model).__name__}"
        )
    check_built(model)


def check_built(model):
    """Raises a `ValueError` unless a model (or layer) has its weights."""
    if not model.built:
        raise ValueError(
            f"The model '{model.name}' is not built: call it on data, or "
            "`build` it, first."
        )


def check_fits(model, x):
    """Raises a `ValueError` if the model takes other shapes than `x` has."""
    expected = getattr(model, "inputs", None)
    if not expected:
        return
    wanted = [tuple(tensor.shape) for tensor in expected]
    came = [tuple(leaf.shape) for leaf in keras.tree.flatten(x)]
    if len(wanted) != len(came) or not all(
        tf.TensorShape([None, *shape[1:]]).is_compatible_with(other)
        for shape, other in zip(wanted, came, strict=True)
    ):
        raise ValueError(
            f"The model '{model.name}' expects inputs of shape {wanted}. "
            f"Received: x of shape {came}"
        )


def _read(dataset):
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) != 2:
        raise ValueError(
            "The dataset must yield pairs (x, y). "
            f"Received: element_spec={spec}"
        )
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "The dataset must be finite: it is read once into memory. "
            "Received an endless one; leave out `repeat()`."
        )
    batches = list(dataset.as_numpy_iterator())
    if not batches:
        raise ValueError("The dataset must not be empty.")
    return keras.tree.map_structure(
        lambda *leaves: np.concatenate([np.atleast_1d(v) for v in leaves]),
        *batches,
    )


def _tensors(name, value):
    # Lists are nested structures of inputs to Keras, never arrays.
    if not keras.tree.flatten(value):
        raise ValueError(
            f"`{name}` must not be empty. Received: {name}={value!r}"
        )
    return keras.tree.map_structure(lambda leaf: _tensor(name, leaf), value)


def _tensor(name, leaf):
    array = np.asarray(leaf)
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"`{name}` must hold numbers, examples along the first axis. "
            f"Received: shape={array.shape}, dtype={array.dtype}"
        )
    if array.shape[0] == 0:
        raise ValueError(
            f"`{name}` must not be empty. Received: shape={array.shape}"
        )
    if array.dtype.kind == "f":
        bad = array.size - np.count_nonzero(np.isfinite(array))
        if bad:
            raise ValueError(
                f"`{name}` must be finite. Received: {bad} of {array.size} "
                "values NaN or infinite"
            )
        array = array.astype(keras.config.floatx(), copy=False)
    return tf.convert_to_tensor(array)
