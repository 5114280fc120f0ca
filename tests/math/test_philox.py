import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tfp_refine.math import philox

SEEDS = [tf.constant([3, -5]), tf.constant([2**40, 7], tf.int64)]
every_seed = pytest.mark.parametrize("seed", SEEDS, ids=["int32", "int64"])


def assert_equal(found, expected):
    assert found.dtype == expected.dtype
    found, expected = (
        np.asarray(
            value if value.dtype.is_integer else tf.cast(value, "double")
        )
        for value in (found, expected)
    )
    np.testing.assert_array_equal(found, expected)


@every_seed
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (501, 7)])
def test_draws_of_numbers_are_those_of_tensorflow(seed, dtype, shape):
    assert_equal(
        philox.normal(shape, seed, dtype),
        tf.random.stateless_normal(shape, seed, dtype=dtype),
    )
    assert_equal(
        philox.uniform(shape, seed, dtype, -1.0, 3.0),
        tf.random.stateless_uniform(shape, seed, -1.0, 3.0, dtype),
    )


@every_seed
def test_other_draws_are_those_of_tensorflow(seed):
    for bounds in ((0, 70), (None, None)):
        assert_equal(
            philox.uniform([99], seed, tf.int32, *bounds),
            tf.random.stateless_uniform([99], seed, *bounds, tf.int32),
        )
    random = tf.random.experimental
    rows = tf.range(99)
    assert_equal(
        philox.shuffle(rows, seed), random.stateless_shuffle(rows, seed)
    )
    assert_equal(philox.split(seed, 3), random.stateless_split(seed, 3))
    assert_equal(philox.fold_in(seed, 3), random.stateless_fold_in(seed, 3))
    x = tf.ones((8, 9))
    assert_equal(
        philox.dropout(x, 0.3, seed, [8, 1]),
        tf.nn.experimental.stateless_dropout(x, 0.3, seed, noise_shape=[8, 1]),
    )


@every_seed
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pairs_are_standard_normal_and_independent(seed, dtype):
    draws = philox.box_muller((2, 100001), seed, dtype)
    assert draws.shape == (2, 100001)
    assert draws.dtype == dtype
    assert_equal(draws, philox.box_muller((2, 100001), seed, dtype))
    assert not np.any(draws == philox.box_muller((2, 100001), seed + 1, dtype))
    first, second = np.asarray(draws, np.float64)
    for values in (first, second):
        # The statistic is 0.0062 or more once in 1000 times.
        assert stats.kstest(values, "norm").statistic < 0.0062
        assert np.max(np.abs(values)) > 4.0
    assert np.all(np.isfinite(draws))
    # The two of a pair are (first, second) of the halves of all numbers.
    bound = 5.0 / np.sqrt(100001)
    assert abs(np.mean(first * second)) < bound
    assert abs(np.mean((first**2 - 1) * (second**2 - 1))) < 2.0 * bound


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(), (1,), (3, 5)])
def test_pairs_have_any_shape(shape):
    assert philox.box_muller(shape, SEEDS[0]).shape == shape
    jit = tf.function(
        lambda: philox.box_muller(shape, SEEDS[0]), jit_compile=True
    )
    assert jit().shape == shape


def inside_a_loop(draw):
    return tf.map_fn(lambda _: draw(), tf.zeros(2))


def inside_a_branch(draw):
    return tf.cond(tf.constant(True), draw, draw)


def inside_a_function(draw):
    return tf.function(draw)()


def ops(graph):
    """Returns the types of ops of a trace and of its functions."""
    nodes = list(graph.as_graph_def().node)
    for function in graph.as_graph_def().library.function:
        nodes += function.node_def
    return {node.op for node in nodes}


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [True, False])
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda draw: draw(),
        inside_a_loop,
        inside_a_branch,
        inside_a_function,
    ],
)
def test_the_slow_choice_of_an_algorithm_is_not_made_under_xla(
    jit_compile, wrapped
):
    @tf.function(jit_compile=jit_compile)
    def draw():
        return wrapped(lambda: philox.uniform([3], SEEDS[0]))

    # It makes the key.
    slow = "StatelessRandomGetKeyCounter"
    graph = draw.get_concrete_function().graph
    assert (slow in ops(graph)) != jit_compile
    assert np.all(np.isfinite(draw()))
