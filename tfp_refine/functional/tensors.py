"""Tensors of arrays, of which `tf.convert_to_tensor` would make two copies."""

import math

import numpy as np
import tensorflow as tf

# Where arrays must begin for TensorFlow to use their memory as it is.
_ALIGNMENT = 64
# Bytes from which on copies matter more than calls.
_LARGE = 2**20


def empty(shape, dtype):
    """Returns an array that `share` turns into a tensor without a copy."""
    if np.dtype(dtype).hasobject:  # text, which is copied
        return np.empty(shape, dtype)
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)


def share(array):
    """Returns a tensor, which owns the array's memory from now on."""
    return tf.raw_ops.Identity(input=array)


def copy(array, dtype=None):
    """Returns a tensor that holds a copy of an array."""
    result = empty(array.shape, array.dtype if dtype is None else dtype)
    result[...] = array
    return share(result)


def convert(value):
    """Converts as `tf.convert_to_tensor`, large arrays by a single copy."""
    is_numbers = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    if is_numbers and value.nbytes >= _LARGE:
        return copy(value)
    return tf.convert_to_tensor(value)
