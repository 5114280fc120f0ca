import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

from tfp_refine import functional
from tfp_refine.functional import program as program_lib
from tfp_refine.math import philox


def test_it_is_traced_once_for_any_length():
    program = functional.Program(lambda x, y: x["a"] * y, varying=(True, False))
    assert program.trace_count == 0
    for size in (3, 1, 5):
        x = {"a": np.ones([size, 2], "float32")}
        np.testing.assert_array_equal(program(x, 2.0), 2.0 * x["a"])
    assert program.trace_count == 1


def test_it_takes_python_numbers_anew_at_each_call():
    program = functional.Program(lambda x: 2 * x)
    assert [int(program(n)) for n in (1, 2, 3)] == [2, 4, 6]
    assert program.trace_count == 1


def test_other_shapes_and_types_are_errors_not_traces():
    program = functional.Program(lambda x: x + 1)
    program(np.ones([3], "float32"))
    for other in (
        np.ones([4], "float32"),
        np.ones([3, 1], "float32"),
        np.ones([3], "int32"),
    ):
        with pytest.raises(ValueError, match=r"compiled for .*shape=\(3,\)"):
            program(other)
    with pytest.raises((TypeError, ValueError), match="same"):
        program([np.ones([3], "float32")])
    assert program.trace_count == 1


def test_only_the_named_axis_may_vary():
    program = functional.Program(lambda x, y: (x, y), varying=(True, False))
    program(tf.ones([3, 2]), tf.ones([3]))
    program(tf.ones([4, 2]), tf.ones([3]))
    for x, y in (
        (tf.ones([3, 3]), tf.ones([3])),
        (tf.ones([3, 2]), tf.ones([4])),
    ):
        with pytest.raises(ValueError, match=r"compiled for .*Received: shape"):
            program(x, y)


def test_each_argument_needs_to_be_said_whether_it_varies():
    program = functional.Program(lambda x, y: x, varying=(True,))
    with pytest.raises(ValueError, match="shorter|longer"):
        program(1.0, 2.0)


def test_graphs_are_not_kept_by_the_gradients_inside_them():
    @tf.custom_gradient
    def triple(x):
        return 3.0 * x, lambda upstream: 5.0 * upstream

    def slope(x):
        def body(i, total):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = triple(x)
            return i + 1, total + tape.gradient(y, x)

        return tf.while_loop(lambda i, _: i < 2, body, (0, 0.0))[1]

    before = len(ops.gradient_registry.list())
    program = functional.Program(slope)
    assert program(1.0) == 10.0
    assert program(2.0) == 10.0
    assert len(ops.gradient_registry.list()) == before


def test_parts_that_xla_compiles_are_traced_once_and_keep_nothing():
    @tf.custom_gradient
    def triple(x):
        return 3.0 * x, lambda upstream: 5.0 * upstream

    traces = []

    def slope(x, y):
        traces.append(1)
        assert philox.is_under_xla()
        with tf.GradientTape() as tape:
            tape.watch(x)
            product = triple(x) * y["y"]
        return {"slope": tape.gradient(product, x)}

    slope = program_lib.under_xla(slope)

    def total(x):
        def body(i, total):
            return i + 1, total + slope(x, {"y": tf.cast(i, x.dtype)})["slope"]

        return tf.while_loop(lambda i, _: i < 3, body, (0, 0.0))[1]

    before = len(ops.gradient_registry.list())
    program = functional.Program(total)
    assert program(1.0) == 15.0
    assert program(2.0) == 15.0
    assert len(traces) == 1
    assert len(ops.gradient_registry.list()) == before


@pytest.mark.slow
def test_functions_that_it_calls_can_be_differentiated_later():
    @tf.function
    @tf.custom_gradient
    def triple(x):
        return 3.0 * x, lambda upstream: 5.0 * upstream

    program = functional.Program(triple)
    x = tf.Variable(1.0)
    assert program(tf.constant(1.0)) == 3.0
    with tf.GradientTape() as tape:
        y = triple(tf.convert_to_tensor(x))
    assert tape.gradient(y, x) == 5.0
