import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import statistics
from tfp_refine.layers import noise
from tfp_refine.math import philox

# More elements than the few that Keras' own normals are used for, and odd
# numbers in a row, so that one of two halves is cut.
SHAPES = [
    (20001,),
    (20001, 1),
    (20000, 5),
    (20000, 2, 3),
    (20000, 1, 3, 3),
]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
every_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])


def _draw(function, shape, dtype="float32"):
    """Returns draws, `[S, ...]`, of a batch whose size the graph ignores."""
    seed = keras.random.SeedGenerator(3)

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def draw(batch):
        sizes = (tf.shape(batch)[0], *shape[1:])
        return function(sizes if len(shape) > 1 else shape, dtype, seed)

    draws = draw(tf.zeros(shape[:1]))
    assert draws.shape == shape
    assert draws.dtype == dtype
    return np.asarray(draws)


def _pairs(rows):
    """Returns products of any two columns, `[S, C, C]`."""
    return rows[:, :, None] * rows[:, None, :]


@pytest.mark.slow
@every_shape
@every_dtype
def test_normals_have_the_moments_of_independent_normals(shape, dtype):
    draws = _draw(noise.standard_normal, shape, dtype)
    rows = np.reshape(draws, (shape[0], -1)).astype("float64")
    statistics.assert_mean(rows, 0.0, 1.0, resolves=0.1)
    statistics.assert_variance(rows, 1.0, resolves_ratio=1.15)
    statistics.assert_mean(rows**4, 3.0, np.sqrt(96.0), resolves=1.0)
    num = rows.shape[1]
    statistics.assert_mean(
        _pairs(rows),
        np.eye(num),
        np.sqrt(1.0 + np.eye(num)),
        resolves=0.15,
    )
    # Not even the radius is shared: squares are uncorrelated too.
    statistics.assert_mean(
        _pairs(rows**2),
        1.0 + 2.0 * np.eye(num),
        np.where(np.eye(num) == 1.0, np.sqrt(96.0), np.sqrt(8.0)),
        resolves=1.0,
    )


@every_shape
def test_normals_of_neighbours_in_a_batch_are_independent(shape):
    rows = np.reshape(_draw(noise.standard_normal, shape), (shape[0], -1))
    half = len(rows) // 2
    # The next one; and, in a vector, the other of a pair.
    for first, second in (
        (rows[:-1:2], rows[1::2]),
        (rows[:half], rows[-half:]),
    ):
        first, second = first[:half].astype("float64"), second[:half]
        statistics.assert_mean(first * second, 0.0, 1.0, resolves=0.2)
        squares = np.square(first * second)
        statistics.assert_mean(squares, 1.0, np.sqrt(8.0), resolves=0.5)


@every_shape
@every_dtype
def test_normals_do_not_repeat(shape, dtype):
    draws = _draw(noise.standard_normal, shape, dtype)
    # Float32 has few enough numbers that some meet by chance.
    least = 0.99 if dtype == "float32" else 1.0
    assert len(np.unique(draws)) >= least * draws.size
    # Nor are they each other's negatives, or narrower numbers.
    assert len(np.unique(np.abs(draws))) >= least * draws.size
    if dtype == "float64":
        assert np.mean(draws == draws.astype("float32")) < 1e-3


def test_normals_reach_into_the_tails_and_are_finite():
    draws = _draw(noise.standard_normal, (1000, 2001))
    assert np.all(np.isfinite(draws))
    # 2 * Q(4) is 6.3e-5.
    beyond = np.ravel(np.abs(draws) > 4.0).astype("float64")
    expected = 6.334e-5
    statistics.assert_mean(
        beyond, expected, np.sqrt(expected), resolves=1.2 * expected
    )
    assert 4.5 < np.max(draws) < 6.0
    assert 4.5 < -np.min(draws) < 6.0


@pytest.mark.parametrize("shape", [(), (1,), (7, 5), (3, 2, 1, 5), (0, 4)])
def test_few_normals_come_in_their_shape_too(shape):
    draws = noise.standard_normal(
        shape, "float32", keras.random.SeedGenerator(1)
    )
    assert draws.shape == shape
    assert len(np.unique(draws)) == np.prod(shape)


def test_few_normals_have_the_moments_of_normals():
    seed = keras.random.SeedGenerator(1)
    rows = np.concatenate(
        [noise.standard_normal((4000,), "float32", seed) for _ in range(5)]
    )
    statistics.assert_mean(rows, 0.0, 1.0, resolves=0.1)
    statistics.assert_variance(rows, 1.0, resolves_ratio=1.15)


def test_sizes_that_are_not_known_may_be_any():
    seed = keras.random.SeedGenerator(1)
    for known in range(4):

        @tf.function(input_signature=[tf.TensorSpec([None] * 4)])
        def draw(like, known=known):
            sizes = [tf.shape(like)[axis] for axis in range(4)]
            sizes[known] = (5, 3, 2, 7)[known]
            return noise.standard_normal(sizes, "float32", seed)

        draws = draw(tf.zeros((5, 3, 2, 7)))
        assert draws.shape == (5, 3, 2, 7)
        assert len(np.unique(draws)) == 210


@pytest.mark.parametrize(
    "function", [noise.standard_normal, noise.random_signs]
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 5), (100, 101)])
def test_draws_are_fresh_and_repeat_with_the_seed(function, dtype, shape):
    seed = keras.random.SeedGenerator(1)
    first = function(shape, dtype, seed)
    second = function(shape, dtype, seed)
    again = function(shape, dtype, keras.random.SeedGenerator(1))
    assert keras.backend.standardize_dtype(first.dtype) == dtype
    first, second, again = (
        keras.ops.convert_to_numpy(keras.ops.cast(draws, "float64"))
        for draws in (first, second, again)
    )
    assert np.all(np.isfinite(first))
    np.testing.assert_array_equal(first, again)
    assert np.mean(first != second) > 0.2


@pytest.mark.parametrize(
    "shape",
    [(20001,), (5000, 1), (5000, 17), (5000, 2, 16), (5000, 1, 2, 5)],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_signs_are_unbiased_and_independent(shape, dtype):
    signs = _draw(noise.random_signs, shape, dtype).astype("float64")
    np.testing.assert_array_equal(np.abs(signs), 1.0)
    rows = np.reshape(signs, (shape[0], -1))
    statistics.assert_mean(rows, 0.0, 1.0, resolves=0.2)
    num = rows.shape[1]
    pairs = _pairs(rows)[:, *np.triu_indices(num, 1)]
    if num > 1:
        statistics.assert_mean(pairs, 0.0, 1.0, resolves=0.2)
    # From one example to the next; in a vector, to the next words as well.
    for lag in (1, 8, 16):
        products = rows[lag:] * rows[:-lag]
        statistics.assert_mean(products, 0.0, 1.0, resolves=0.2)


def test_draws_have_their_moments_under_xla_too():
    seed = keras.random.SeedGenerator(3)

    @tf.function(jit_compile=True)
    def draw():
        return (
            noise.random_signs((5000, 3), "float32", seed),
            noise.standard_normal((5001, 3), "float32", seed),
        )

    signs, normals = draw()
    np.testing.assert_array_equal(np.abs(signs), 1.0)
    statistics.assert_mean(signs, 0.0, 1.0, resolves=0.2)
    statistics.assert_mean(normals, 0.0, 1.0, resolves=0.2)
    statistics.assert_variance(normals, 1.0, resolves_ratio=1.35)


@pytest.mark.parametrize(
    "make",
    [
        lambda: 7,
        lambda: 2**40,
        lambda: keras.random.SeedGenerator(2**31 + 5),
    ],
    ids=["integer", "large", "generator"],
)
def test_draws_are_those_of_keras(make):
    np.testing.assert_array_equal(
        noise.standard_normal((7, 3), "float32", make()),
        keras.random.normal((7, 3), seed=make()),
    )


def test_draws_of_the_global_generator_are_fresh_and_fixed_by_the_seed():
    def two():
        keras.utils.set_random_seed(3)
        return [
            np.asarray(noise.standard_normal((5,), "float32", None))
            for _ in range(2)
        ]

    first, second = two()
    assert np.all(first != second)
    np.testing.assert_array_equal(two(), [first, second])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normals_under_xla_are_the_same_function_of_uniform_numbers(dtype):
    @tf.function(jit_compile=True)
    def draw():
        return (
            noise.standard_normal((20, 1001), dtype, 5),
            philox.uniform((2, 20, 501), noise.next_seed(5), dtype),
        )

    found, uniform = draw()
    first, turns = np.array(uniform, "float64")
    radius, angle = np.sqrt(-2.0 * np.log1p(-first)), 2.0 * np.pi * turns
    expected = [radius * np.cos(angle), radius * np.sin(angle)]
    np.testing.assert_allclose(
        found,
        np.concatenate(expected, axis=-1)[:, :1001],
        atol=1e-5 if dtype == "float32" else 1e-12,
    )
