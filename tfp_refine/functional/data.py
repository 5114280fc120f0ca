"""Data as arrays: checked once, before any long work."""

import keras
import tensorflow as tf

from tfp_refine.functional import arrays
from tfp_refine.functional import example_weights
from tfp_refine.functional import sources

# Parts of training data, as Keras names them.
NAMES = sources.NAMES


def examples(
    x, y=None, sample_weight=None, class_weight=None, *, most_bytes=None
):
    """Turns training data into tensors, floats in Keras' `floatx`.

    They are of any kind that `sources.source` takes; batches are read into
    memory. Returns `(x, y)`, tensors `[N, ...]` (or nested), with weights the
    third as of `example_weights.checked`, and `N`; or `Batches` of more than
    `most_bytes`, and `None`. Raises a `ValueError` unless all are finite and of
    the same length, weights fit to weigh, and given once.
    """
    if y is None and not sources.is_batched(x):
        raise ValueError(
            "`y` must be given, unless `x` yields batches of (x, y), as a "
            "tf.data.Dataset may. "
            f"Received: y=None, x of type {type(x).__name__}"
        )
    parts = _read(x, y, sample_weight, most_bytes)
    if isinstance(parts, sources.Batches):
        return parts, None
    sources.check_targets(parts)
    return with_weights(parts, class_weight), num_examples(parts[0])


def weighted(x, y=None, sample_weight=None, class_weight=None):
    """Returns `x`, `y`, weights `[N]` and `N`; weights are `None` if not given.

    Arguments are as for `examples`. Raises a `ValueError` if weights are not
    one for each example.
    """
    parts, num_examples = examples(x, y, sample_weight, class_weight)
    if len(parts) == 2:
        return *parts, None, num_examples
    example_weights.one_each(parts[2])
    return *parts, num_examples


def with_weights(parts, class_weight=None, *, is_part=False):
    """Returns `(x, y)`, or with weights `(x, y, weight)`, checked.

    Weights are the third of the parts, or those of classes. Not all may be 0,
    unless this `is_part` of the data.
    """
    x, y, *weights = parts
    if class_weight is not None:
        if weights:
            raise ValueError(
                "Give `sample_weight` or `class_weight`, not both. Received: "
                f"class_weight={class_weight!r} beside weights of examples"
            )
        weights = [example_weights.of_classes(y, class_weight)]
    return x, y, *(example_weights.checked(w, is_part) for w in weights)


def inputs(x):
    """Turns inputs of any kind into tensors `[N, ...]` (or nested).

    Batches are read into memory; targets and weights in them are left out.
    """
    if sources.is_batched(x):
        return sources.Batches(x, inputs_only=True).read()[0]
    return _read(x)[0]


def blocks(x, batch_size):
    """Yields a slice of the examples and their inputs, `[B, ...]` (or nested).

    Inputs are of any kind that `sources.source` takes, perhaps followed by
    targets and sample weights. Batches stay as they are; no more than one is
    held.
    """
    if not sources.is_batched(x):
        # All are checked before any work; only a block is copied at a time.
        (x,) = sources.source(x)
        sources.map_leaves("x", x, arrays.check_finite)
        sources.check_lengths((x,))
        count = num_examples(x)
        for begin in range(0, count, batch_size):
            rows = slice(begin, min(begin + batch_size, count))
            yield rows, keras.tree.map_structure(arrays.tensor, take(x, rows))
        return
    begin = 0
    for (block,) in sources.Batches(x, inputs_only=True):
        rows = slice(begin, begin + num_examples(block))
        yield rows, block
        begin = rows.stop


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


def _read(x, y=None, sample_weight=None, most_bytes=None):
    """Returns tensors of all parts, checked, or `Batches` of more bytes."""
    parts = sources.source(x, y, sample_weight)
    if isinstance(parts, sources.Batches):
        return parts.read(with_targets=True, most_bytes=most_bytes) or parts
    for name, part in zip(NAMES, parts, strict=False):
        sources.map_leaves(name, part, arrays.check_finite)
    sources.check_lengths(parts)
    return keras.tree.map_structure(arrays.tensor, parts)
