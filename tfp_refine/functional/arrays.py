"""One array of data: whatever can be one, checked where it enters."""

import numbers

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.functional import tensors

# Bytes of which are checked at a time whether they are finite.
_CHECKED = 2**20
# Where to go from kinds of arrays that are none of numbers.
_DENSE = {
    "RaggedTensor": "pad it, `x.to_tensor()`",
    "SparseTensor": "make it dense, `tf.sparse.to_dense(x)`",
}


def array(name, value):
    """Returns a NumPy array or a tensor, `[N, ...]`, of numbers or text.

    Numbers are not copied where that can be avoided; text, which only `x` may
    be, is a tensor. Pandas' frames are `[N, F]` and its series `[N]`. Raises a
    `ValueError` if a value is no array, or one that would lose something.
    """
    if isinstance(value, tf.Tensor):
        return _checked(name, value, value)
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(
            f"`{name}` must not be a masked array: its mask would be lost. "
            "Fill it, `filled(...)`, or leave out the examples."
        )
    kind = type(value).__name__
    if kind in _DENSE or hasattr(value, "toarray"):
        raise ValueError(
            f"`{name}` must be a dense array: "
            f"{_DENSE.get(kind, 'make it one, `x.toarray()`')}. "
            f"Received: a {kind}"
        )
    if hasattr(value, "to_numpy"):  # pandas
        found = value.to_numpy()
    elif hasattr(value, "detach"):  # torch
        found = value.detach().cpu().numpy()
    else:
        try:
            found = np.asarray(value)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"`{name}` must be an array. Received: a {kind} ({error})"
            ) from error
    if found.dtype.kind in "OT":
        found = _of_objects(name, value, found.astype(object))
    _checked(name, found, value)
    if found.dtype.kind in "US":
        return tf.convert_to_tensor(found, tf.string)
    return found


def is_text(value):
    """Returns whether an array or a tensor holds strings."""
    return value.dtype == tf.string


def check_finite(name, value):
    """Raises a `ValueError` unless a tensor of the array would be finite."""
    if not is_text(value):
        check_range(name, value, _dtype(value))


def check_range(name, value, dtype):
    """Raises a `ValueError` unless all numbers are finite in a dtype."""
    value, dtype = np.asarray(value), np.dtype(dtype)
    if not _is_float(value.dtype) or not value.size:
        return
    size = max(1, _CHECKED // max(1, value[0].nbytes))
    bad = before = 0
    with np.errstate(over="ignore"):
        for begin in range(0, len(value), size):
            rows = value[begin : begin + size]
            cast = rows.astype(dtype, copy=False)
            missing = rows.size - np.count_nonzero(np.isfinite(cast))
            if missing:
                bad += missing
                before += rows.size - np.count_nonzero(np.isfinite(rows))
    if before:
        raise ValueError(
            f"`{name}` must be finite. Received: {before} of {value.size} "
            "values NaN or infinite"
        )
    if bad:
        raise ValueError(
            f"`{name}` must be finite in {dtype}, in which the model computes. "
            f"Received: {bad} of {value.size} values that are finite in "
            f"{value.dtype} and infinite in {dtype}: scale them"
        )


def tensor(value):
    """Copies an array into a tensor; a tensor of the right dtype is itself."""
    if is_text(value):
        return value
    dtype = _dtype(value)
    if isinstance(value, tf.Tensor):
        return tf.cast(value, dtype)
    return tensors.copy(value, dtype)


def _dtype(value):
    """Returns the dtype of the tensor of an array."""
    dtype = np.dtype(getattr(value.dtype, "as_numpy_dtype", value.dtype))
    return np.dtype(keras.config.floatx()) if _is_float(dtype) else dtype


def _is_float(dtype):
    return dtype.kind == "f" or dtype == tf.bfloat16.as_numpy_dtype


def _of_objects(name, value, found):
    """Returns numbers or text of an array of Python objects."""
    kinds = {type(item) for item in found.flat}
    if kinds <= {str, bytes}:
        return found.astype(bytes) if kinds == {bytes} else found.astype(str)
    if all(issubclass(kind, numbers.Number | np.bool_) for kind in kinds):
        return np.array(found.tolist())
    columns = (
        [
            str(column)
            for column, dtype in getattr(value, "dtypes", {}).items()
            if getattr(dtype, "kind", "O") not in "biuf"
        ]
        if found.ndim == 2
        else []
    )
    raise ValueError(
        f"`{name}` must hold numbers{', or text alone' * (name == 'x')}. "
        "Received: objects of "
        f"{', '.join(sorted(kind.__name__ for kind in kinds))}"
        + (f", in the columns {columns}" if columns else "")
    )


def _checked(name, found, value):
    dtype = np.dtype(getattr(found.dtype, "as_numpy_dtype", found.dtype))
    # Tensors of text have the dtype of objects in NumPy.
    text = ("OUS" if tf.is_tensor(found) else "US") if name == "x" else ""
    is_known = dtype.kind in "biuf" + text or _is_float(dtype)
    shape = tuple(found.shape)
    if not shape or not is_known:
        raise ValueError(
            f"`{name}` must hold numbers{' or text' if text else ''}, examples "
            f"along the first axis. Received: shape={shape}, dtype={dtype}, "
            f"of type {type(value).__name__}"
            + ("" if shape else " (a list is a structure of arrays, not one)")
        )
    if shape[0] == 0:
        raise ValueError(f"`{name}` must not be empty. Received: shape={shape}")
    return found
