import numpy as np
import pytest
import tensorflow as tf

from tfp_refine.experiments.harness import memory
from tfp_refine.functional import tensors

NUM = 2**24  # 64 MiB in float32


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5, 3), (700, 600)])
def test_arrays_are_copied_into_tensors(shape, dtype):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    for tensor in (tensors.copy(array), tensors.convert(array)):
        assert isinstance(tensor, tf.Tensor)
        assert tensor.dtype == dtype
        np.testing.assert_array_equal(tensor, array)


def test_transposed_arrays_are_copied_in_their_order():
    array = np.arange(2**20, dtype=np.float32).reshape(2**8, -1).T
    np.testing.assert_array_equal(tensors.convert(array), array)


def test_a_copy_may_be_of_another_dtype():
    tensor = tensors.copy(np.array([1.5, 2.0]), "float32")
    assert tensor.dtype == "float32"
    np.testing.assert_array_equal(tensor, [1.5, 2.0])


def test_shared_memory_is_not_copied():
    array = tensors.empty((4, 2), "float32")
    array[:] = 0.0
    with tf.device("CPU"):
        tensor = tensors.share(array)
    array[1, 1] = 3.0
    assert tensor[1, 1] == 3.0


def test_a_large_array_is_converted_by_one_copy():
    array = np.ones(NUM, np.float32)
    with memory.Peak() as peak:
        tensor = tensors.convert(array)
    array[:] = 2.0
    assert tensor[-1] == 1.0
    if peak.mebibytes is not None:
        assert peak.mebibytes < 80.0


@pytest.mark.parametrize("value", [1.0, [1, 2], np.array(["a"]), tf.ones([2])])
def test_all_else_is_converted_as_by_tensorflow(value):
    tensor, expected = tensors.convert(value), tf.convert_to_tensor(value)
    assert tensor.dtype == expected.dtype
    np.testing.assert_array_equal(tensor, expected)
