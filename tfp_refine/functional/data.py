"""Data as arrays: checked once, before any long work."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.functional import tensors

# Parts of training data, as Keras names them.
NAMES = ("x", "y", "sample_weight")
# Bytes of which are checked at a time whether they are finite.
_CHECKED = 2**20


def examples(x, y=None, sample_weight=None):
    """Turns training data into tensors, floats in Keras' `floatx`.

    They are arrays `[N, ...]` (or nested), or a finite, batched
    `tf.data.Dataset` of `(x, y)` or `(x, y, sample_weight)`. Returns `(x, y)`,
    with weights `[N]` the third, and `N`. Raises a `ValueError` unless all are
    finite numbers and of the same length, and weights fit to weigh.
    """
    if isinstance(x, tf.data.Dataset):
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                raise ValueError(
                    f"`{name}` must be None when `x` is a tf.data.Dataset, "
                    "which yields it along."
                )
        parts = _read(x)
    elif y is None:
        raise ValueError(
            "`y` must be given, unless `x` is a tf.data.Dataset of (x, y). "
            f"Received: y=None, x of type {type(x).__name__}"
        )
    else:
        parts = [x, y] if sample_weight is None else [x, y, sample_weight]
        parts = [
            _map_numbers(name, part, _finite_tensor)
            for name, part in zip(NAMES, parts, strict=False)
        ]
    lengths = {
        name: [leaf.shape[0] for leaf in keras.tree.flatten(part)]
        for name, part in zip(NAMES, parts, strict=False)
    }
    if len(set(sum(lengths.values(), []))) != 1:
        raise ValueError(
            "All data must have the same number of examples. Received: "
            + ", ".join(f"{count} in {name}" for name, count in lengths.items())
            + ". (A tf.data.Dataset must be batched, as for `fit`.)"
        )
    if len(parts) == 3:
        parts[2] = _weights(parts[2])
    return tuple(parts), lengths["x"][0]


def pair(x, y=None):
    """Returns `x`, `y` and `N`, as `examples`, and refuses weights."""
    parts, num_examples = examples(x, y)
    if len(parts) == 3:
        raise ValueError(
            "The dataset must yield (x, y): weights of examples are not used "
            "here. Received: (x, y, sample_weight)"
        )
    return *parts, num_examples


def _weights(weights):
    """Returns weights as floats `[N]`, checked."""
    leaves = keras.tree.flatten(weights)
    shapes = [tuple(leaf.shape) for leaf in leaves]
    if len(leaves) != 1 or np.prod(shapes[0][1:]) != 1:
        raise ValueError(
            "`sample_weight` must be one number for each example, `[N]`. "
            f"Received: shape {shapes}"
        )
    weights = tf.cast(tf.reshape(leaves[0], [-1]), keras.config.floatx())
    low, total = float(tf.reduce_min(weights)), float(tf.reduce_sum(weights))
    if low < 0.0 or total == 0.0:
        raise ValueError(
            "`sample_weight` must hold numbers of which none is negative, and "
            f"not all are 0. Received: least value {low:g}, sum {total:g}"
        )
    return weights


def inputs(x):
    """Turns inputs `[N, ...]` (or nested) into tensors, as `examples`."""
    if isinstance(x, tf.data.Dataset):
        raise ValueError(
            "`x` must be an array, or a nested structure of arrays. "
            "Received: a tf.data.Dataset"
        )
    x = _map_numbers("x", x, _finite_tensor)
    _common_length(x)
    return x


def blocks(x, batch_size):
    """Yields a slice of the examples and their inputs, `[B, ...]` (or nested).

    Inputs are as for `inputs`, or a finite `tf.data.Dataset` of batches of
    them, alone or followed by targets and sample weights, which keeps its own
    batches; no more than one is held.
    """
    if not isinstance(x, tf.data.Dataset):
        # All are checked before any work; only a block is copied at a time.
        x = _map_numbers("x", x, _finite)
        count = _common_length(x)
        for begin in range(0, count, batch_size):
            rows = slice(begin, min(begin + batch_size, count))
            yield rows, keras.tree.map_structure(_tensor, take(x, rows))
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
    if not isinstance(spec, tuple) or len(spec) not in (2, 3):
        raise ValueError(
            "The dataset must yield (x, y) or (x, y, sample_weight). "
            f"Received: element_spec={spec}"
        )
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "The dataset must be finite: it is read once into memory. "
            "Received an endless one; leave out `repeat()`."
        )
    blocks = max(1, int(dataset.cardinality()))
    columns = [
        _map_numbers(name, part, lambda name, _: _Column(name, blocks))
        for name, part in zip(NAMES, spec, strict=False)
    ]
    empty = True
    for batch in dataset.as_numpy_iterator():
        empty = False
        keras.tree.map_structure(
            lambda column, leaf: column.add(np.atleast_1d(leaf)),
            columns,
            list(batch),
        )
    if empty:
        raise ValueError("The dataset must not be empty.")
    return keras.tree.map_structure(lambda column: column.tensor(), columns)


class _Column:
    """Rows of numbers on their way into a tensor, of which one copy is held.

    There is room for the first rows `blocks` times, and more is made if need
    be: a page of memory counts once it is written.
    """

    def __init__(self, name, blocks=1):
        self._name, self._blocks = name, blocks
        self._rows = None
        self._count = 0

    def add(self, array):
        """Copies rows, `[n, ...]`."""
        array = _numbers(self._name, array)
        begin, end = self._count, self._count + len(array)
        if self._rows is None:
            self._rows = tensors.empty(
                (self._blocks * len(array), *array.shape[1:]), _dtype(array)
            )
        elif array.shape[1:] != self._rows.shape[1:]:
            raise ValueError(
                f"All examples in `{self._name}` must have one shape. "
                f"Received: {self._rows.shape[1:]} and {array.shape[1:]}"
            )
        if end > len(self._rows):
            more = tensors.empty((2 * end, *array.shape[1:]), self._rows.dtype)
            more[:begin] = self._rows[:begin]
            self._rows = more
        with np.errstate(over="ignore"):
            self._rows[begin:end] = array
        self._count = end

    def tensor(self):
        """Returns all rows; it shares their memory."""
        rows = self._rows[: self._count]
        _check_finite(self._name, rows, rows.dtype)
        return tensors.share(rows)


def _map_numbers(name, value, function):
    """Maps `function(name, leaf)` over a structure, which must hold some."""
    # Lists are nested structures of inputs to Keras, never arrays.
    if not keras.tree.flatten(value):
        raise ValueError(
            f"`{name}` must not be empty. Received: {name}={value!r}"
        )
    return keras.tree.map_structure(lambda leaf: function(name, leaf), value)


def _common_length(x):
    lengths = {leaf.shape[0] for leaf in keras.tree.flatten(x)}
    if len(lengths) != 1:
        raise ValueError(
            "All inputs must have the same number of examples. "
            f"Received: {sorted(lengths)}"
        )
    return lengths.pop()


def _finite_tensor(name, leaf):
    return _tensor(_finite(name, leaf))


def _finite(name, leaf):
    """Returns numbers that a tensor can be made of, checked, not copied."""
    array = _numbers(name, leaf)
    _check_finite(name, array, _dtype(array))
    return leaf if isinstance(leaf, tf.Tensor) else array


def _tensor(leaf):
    """Copies an array into a tensor; a tensor of the right dtype is itself."""
    dtype = _dtype(leaf)
    if isinstance(leaf, tf.Tensor):
        return tf.cast(leaf, dtype)
    return tensors.copy(leaf, dtype)


def _dtype(array):
    """Returns the dtype of the tensor of an array."""
    dtype = np.dtype(getattr(array.dtype, "as_numpy_dtype", array.dtype))
    return np.dtype(keras.config.floatx()) if dtype.kind == "f" else dtype


def _numbers(name, leaf):
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
    return array


def _check_finite(name, array, dtype):
    """Raises a `ValueError` unless all numbers are finite in a dtype."""
    if array.dtype.kind != "f":
        return
    size = max(1, _CHECKED // max(1, array[0].nbytes))
    bad = 0
    with np.errstate(over="ignore"):
        for begin in range(0, len(array), size):
            rows = array[begin : begin + size].astype(dtype, copy=False)
            bad += rows.size - np.count_nonzero(np.isfinite(rows))
    if bad:
        raise ValueError(
            f"`{name}` must be finite. Received: {bad} of {array.size} "
            f"values NaN or infinite in {dtype}"
        )
