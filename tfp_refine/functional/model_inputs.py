"""Inputs as a model takes them."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.functional import arrays

# Layers that turn text into numbers.
_TEXT_LAYERS = (
    keras.layers.TextVectorization,
    keras.layers.StringLookup,
    keras.layers.Hashing,
    keras.layers.HashedCrossing,
)


def fit(model, x):
    """Returns inputs `[N, ...]` (or nested) in the structure of a model's.

    Inputs by name may come in any order, also for a model that takes a list;
    `[N]` is enough where a model takes `[N, 1]`. Models that say nothing of
    their inputs, as subclassed ones, get `x` as it is. Raises a `ValueError` if
    names, shapes or dtypes do not fit.
    """
    expected = getattr(model, "inputs", None)
    if not expected:
        _check_text_can_be_read(model, x)
        return x
    structure = _structure(model)
    leaves = _leaves(model, structure, x)
    if len(leaves) != len(expected) or not all(
        _is_of_shape(tensor, leaf)
        for tensor, leaf in zip(expected, leaves, strict=True)
    ):
        raise ValueError(
            f"The model '{model.name}' expects inputs of shape "
            f"{[tuple(tensor.shape) for tensor in expected]}. Received: x of "
            f"shape {[tuple(leaf.shape) for leaf in leaves]}"
        )
    leaves = [
        _of_rank(tensor, leaf)
        for tensor, leaf in zip(expected, leaves, strict=True)
    ]
    for tensor, leaf in zip(expected, leaves, strict=True):
        _check_dtype(model, tensor, leaf)
    if not isinstance(structure, dict) and len(leaves) == 1:
        return leaves[0]
    return keras.tree.pack_sequence_as(structure, leaves)


def _structure(model):
    """Returns the nested symbolic inputs of a model."""
    is_sequential = isinstance(model, keras.Sequential)
    return model.inputs[0] if is_sequential else model.input


def _leaves(model, structure, x):
    """Returns the inputs of a model in the order of `model.inputs`."""
    is_dict = isinstance(structure, dict)
    if not isinstance(x, dict):
        if is_dict and len(structure) > 1:
            raise ValueError(
                f"The model '{model.name}' expects inputs by name, a dict of "
                f"{sorted(structure)}. Received: x of type {type(x).__name__}"
            )
        return keras.tree.flatten(x)
    if is_dict:
        names = sorted(structure)
    else:
        names = [tensor.name for tensor in keras.tree.flatten(structure)]
    unknown = [name for name in x if name not in names]
    missing = [name for name in names if name not in x]
    if unknown or missing:
        raise ValueError(
            f"The model '{model.name}' expects the inputs {names}. Received: "
            f"x with the names {list(x)}"
            + (f", of which {unknown} are unknown" if unknown else "")
            + (f", without {missing}" if missing else "")
        )
    return keras.tree.flatten([x[name] for name in names])


def _is_of_shape(tensor, leaf):
    wanted, came = tuple(tensor.shape[1:]), tuple(leaf.shape[1:])
    if len(wanted) == len(came) + 1 and wanted[-1] == 1:
        wanted = wanted[:-1]
    elif len(wanted) == len(came) - 1 and came[-1] == 1:
        came = came[:-1]
    return tf.TensorShape(wanted).is_compatible_with(came)


def _of_rank(tensor, leaf):
    """Adds or drops the last axis of an input, 1, as Keras does."""
    if len(leaf.shape) == len(tensor.shape):
        return leaf
    if len(leaf.shape) < len(tensor.shape):
        return tf.expand_dims(leaf, -1)
    return tf.squeeze(leaf, -1)


def _check_dtype(model, tensor, leaf):
    """Raises a `ValueError` if an input cannot become one of the model's."""
    wanted = tf.as_dtype(tensor.dtype)
    if arrays.is_text(leaf) != (wanted == tf.string):
        raise ValueError(
            f"The model '{model.name}' expects "
            + ("text" if wanted == tf.string else "numbers")
            + f" as its input '{tensor.name}'. Received: {leaf.dtype.name}"
            + ("" if wanted == tf.string else _NO_TEXT)
        )
    if not leaf.dtype.is_floating:
        return
    if wanted.is_integer:
        _check_whole(model, tensor, leaf)
    elif wanted.is_floating:
        wanted = min(_dtypes_of_use(model, tensor, wanted), key=lambda d: d.max)
        if wanted.max < leaf.dtype.max:
            arrays.check_range("x", leaf, wanted.as_numpy_dtype)


_NO_TEXT = (
    ". Text needs a layer that reads it, such as "
    "`keras.layers.TextVectorization`"
)


def _dtypes_of_use(model, tensor, dtype):
    """Yields the dtypes that layers cast an input of some dtype to."""
    yield dtype
    for layer in model.layers:
        inputs = [node.input_tensors for node in layer._inbound_nodes]
        if layer.autocast and any(tensor is one for one in sum(inputs, [])):
            yield tf.as_dtype(layer.compute_dtype)


def _check_whole(model, tensor, leaf):
    values = np.asarray(leaf)
    fractions = values[values != np.floor(values)]
    if fractions.size:
        raise ValueError(
            f"The model '{model.name}' expects integers as its input "
            f"'{tensor.name}'. Received: {fractions.size} of {values.size} "
            f"values are fractions, such as {float(fractions[0]):g}"
        )


def _check_text_can_be_read(model, x):
    """Refuses text for a model all of whose layers are known to need numbers.

    A custom layer may read text.
    """
    inner = list(model._flatten_layers(include_self=False))
    if not any(arrays.is_text(leaf) for leaf in keras.tree.flatten(x)):
        return
    if all(
        type(layer).__module__.split(".")[0] in ("keras", "tfp_refine")
        and not isinstance(layer, _TEXT_LAYERS)
        for layer in inner
    ):
        raise ValueError(
            f"`x` must hold numbers for the model '{model.name}'. Received: "
            f"text{_NO_TEXT}"
        )
