"""Members that are vectorized, with draws that are made before."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

from tfp_refine import functional
from tfp_refine import layers
from tfp_refine.functional import draws_first
from tfp_refine.functional import program

KEYS = np.array([3, 1, 2**40])


def _operations(graph):
    """Returns the kinds of the operations of a graph and its functions."""
    graph = graph.as_graph_def()
    nodes = [*graph.node]
    for function in graph.library.function:
        nodes += function.node_def
    return [node.op for node in nodes]


def _noisy(key, stacked, shared, index):
    """Has draws, a draw from a draw, and a draw that only the rest uses."""
    seed = tf.stack([key, index])
    first = tf.random.stateless_normal([4], seed)
    again = tf.random.stateless_uniform([2], tf.stack([key, index + 7]))
    moved = stacked + shared * tf.exp(first)
    return {"moved": moved, "sum": [tf.reduce_sum(moved * moved), again]}, key


def _assert_mapped(function, stacked, shared, index):
    """Checks against the function, member by member; returns the graph."""
    keys = tf.constant(KEYS)

    @tf.function(autograph=False)
    def together(keys, stacked, index):
        return draws_first.vectorize(function, keys, stacked, shared, index)

    index = tf.constant(index, tf.int64)
    found = together(keys, stacked, index)
    for number, key in enumerate(keys):
        one = tf.nest.map_structure(lambda v: v[number], stacked)  # noqa: B023
        expected = function(key, one, shared, index)
        tf.nest.map_structure(
            lambda value, values: np.testing.assert_allclose(
                values[number],  # noqa: B023
                value,
                rtol=1e-5,
                atol=1e-6,
            ),
            expected,
            found,
        )
    return together.get_concrete_function(keys, stacked, index).graph


def test_assertions_on_other_values_are_no_part_of_the_draws():
    def checked(key, stacked, shared, index):
        noise = tf.random.stateless_normal([4], tf.stack([key, index]))
        below = tf.reduce_all(stacked < 100.0)
        # With integers, it is an operation without a branch.
        tf.debugging.Assert(below, [tf.cast(stacked, tf.int32)])
        return noise * stacked + shared

    stacked = tf.reshape(tf.range(12.0), [3, 4])
    _assert_mapped(checked, stacked, tf.constant(2.0), 5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="assert"):
        _assert_mapped(checked, 100.0 + stacked, tf.constant(2.0), 5)


def test_members_have_the_draws_of_their_keys():
    stacked = tf.reshape(tf.range(12.0), [3, 4])
    for index in (0, 5):
        _assert_mapped(_noisy, stacked, tf.constant(2.0), index)


def test_operations_may_wait_for_arguments_and_draws():
    def waiting(key, stacked, shared, index):
        noise = tf.random.stateless_normal([4], tf.stack([key, index]))
        with tf.control_dependencies([stacked, noise]):
            total = tf.reduce_sum(shared)
        with tf.compat.v1.colocate_with(stacked):
            total = tf.identity(total)
        return noise * stacked, total, stacked

    stacked = tf.reshape(tf.range(12.0), [3, 4])
    _assert_mapped(waiting, stacked, tf.constant([2.0, 1.0]), 5)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_inside_are_not_kept(compiled):
    def slope(key, stacked, shared, index):
        @tf.custom_gradient
        def triple(x):
            return 3.0 * x, lambda upstream: 5.0 * upstream

        noise = tf.random.stateless_normal([4], tf.stack([key, index]))
        with tf.GradientTape() as tape:
            tape.watch(stacked)
            value = triple(stacked) * noise * shared
        return tape.gradient(value, stacked) / noise

    def together(keys, stacked, shared, index):
        return draws_first.vectorize(slope, keys, stacked, shared, index)

    if compiled:
        together = program.under_xla(together)
    before = len(ops.gradient_registry.list())
    found = functional.Program(together)(
        KEYS, np.ones([3, 4], "float32"), np.float32(2.0), np.int64(5)
    )
    np.testing.assert_allclose(found, np.full([3, 4], 10.0), rtol=1e-6)
    assert len(ops.gradient_registry.list()) == before


def test_all_draws_are_made_in_one_loop_before():
    stacked = tf.reshape(tf.range(12.0), [3, 4])
    graph = _assert_mapped(_noisy, stacked, tf.constant(2.0), 0)
    found = _operations(graph)
    assert sum("While" in kind for kind in found) == 1
    # Without draws there is none.
    graph = _assert_mapped(
        lambda key, stacked, shared, index: stacked * shared,
        stacked,
        tf.constant(2.0),
        0,
    )
    assert not any("While" in kind for kind in _operations(graph))


@pytest.mark.slow
@pytest.mark.parametrize(
    "layer",
    [
        layers.DenseLocalReparameterization,
        layers.DenseFlipout,
        layers.DenseReparameterization,
    ],
)
def test_layers_draw_first(layer):
    inputs = keras.Input((3,))
    hidden = layer(5, activation="relu", num_train_examples=9)(inputs)
    model = keras.Model(inputs, layer(2, num_train_examples=9)(hidden))
    view = functional.MeanFieldView(model)
    x = tf.random.stateless_normal([8, 3], [1, 2])
    params = tf.stack([view.params() + 0.1 * i for i in range(3)])

    def value_and_gradient(key, stacked, shared, index):
        fixed, x = shared
        with tf.GradientTape() as tape:
            tape.watch(stacked)
            outputs = view.call(x, stacked, fixed, key, index)
            value = tf.reduce_sum(tf.square(outputs))
        return value, tape.gradient(value, stacked)

    graph = _assert_mapped(value_and_gradient, params, (view.fixed(), x), 4)
    loops = sum("While" in kind for kind in _operations(graph))
    assert loops == 1


def test_a_function_with_control_flow_is_mapped_too():
    def function(key, stacked, shared, index):
        results, _ = _noisy(key, stacked, shared, index)
        moved, *others = tf.nest.flatten(results)
        doubled = tf.cond(moved[0] > 3.0, lambda: 2.0 * moved, lambda: moved)
        return doubled, others

    _assert_mapped(
        function, tf.reshape(tf.range(12.0), [3, 4]), tf.constant(2.0), 1
    )


def test_a_function_with_values_from_outside_is_mapped_too():
    outside = tf.Variable([1.0, 2.0, 3.0, 4.0])

    def function(key, stacked, shared, index):
        return _noisy(key, stacked + outside, shared, index)

    _assert_mapped(
        function, tf.reshape(tf.range(12.0), [3, 4]), tf.constant(2.0), 1
    )
