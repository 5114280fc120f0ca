import keras
import numpy as np
import pytest

from tests.support import statistics
from tfp_refine import layers
from tfp_refine import regularizers
from tfp_refine.layers import variational_weight


def make(num=3, dtype=None, regularizer="gaussian_kl"):
    """Returns the weight of a kernel `[2, num]`."""
    layer = layers.DenseFlipout(
        num, use_bias=False, kernel_regularizer=regularizer, dtype=dtype
    )
    layer.build((None, 2))
    (weight,) = layer.variational_weights
    return weight


def test_what_is_assigned_is_read_back(rng):
    weight = make()
    loc = rng.normal(size=(2, 3))
    scale = np.geomspace(1e-6, 1e3, 6).reshape(2, 3)
    weight.assign(loc=loc, scale=scale)
    np.testing.assert_allclose(weight.loc, loc, rtol=1e-6)
    np.testing.assert_allclose(weight.scale, scale, rtol=1e-5)
    weight.assign(loc=2 * loc)
    np.testing.assert_allclose(weight.scale, scale, rtol=1e-5)
    weight.assign(scale=2 * scale)
    np.testing.assert_allclose(weight.loc, 2 * loc, rtol=1e-6)


def test_draws_have_the_moments_of_the_posterior():
    num = 20000
    weight = make(num)
    loc, scale = np.array([1.0, -3.0]), np.array([0.2, 2.0])
    weight.assign(
        loc=np.repeat(loc[:, None], num, axis=1),
        scale=np.repeat(scale[:, None], num, axis=1),
    )
    seed = keras.random.SeedGenerator(1)
    draws = np.transpose(weight.sample(seed, "float32"))
    noise = np.transpose(weight.perturbation(seed, "float32"))
    for values, mean in ((draws, loc), (noise, 0.0)):
        statistics.assert_mean(values, mean, scale, resolves=0.1 * scale)
        statistics.assert_variance(values, scale**2, resolves_ratio=1.15)
    np.testing.assert_allclose(
        weight.variance("float32")[:, 0], scale**2, rtol=1e-5
    )


def test_values_come_in_the_dtype_that_is_asked_for():
    weight = make(dtype="mixed_float16")
    assert weight.scale.dtype == "float32"
    seed = keras.random.SeedGenerator(1)
    for value in (
        weight.mean("float16"),
        weight.variance("float16"),
        weight.sample(seed, "float16"),
        weight.perturbation(seed, "float16"),
    ):
        assert value.dtype == "float16"


def test_the_prior_is_the_one_of_the_regularizer():
    weight = make(regularizer=regularizers.GaussianKL(0.5))
    assert float(weight.prior.loc) == 0.0
    assert float(weight.prior.scale) == 0.5
    assert make(regularizer=None).prior is None
    learned = make(regularizer=regularizers.EmpiricalBayesKL())
    (raw,) = learned.prior_weights
    raw.assign(2.0)
    np.testing.assert_allclose(
        learned.prior.scale, np.log1p(np.exp(2.0)), rtol=1e-6
    )


def test_kl_vanishes_where_posterior_and_prior_agree():
    weight = make(regularizer=regularizers.GaussianKL(0.5))
    weight.assign(loc=np.zeros([2, 3]), scale=np.full([2, 3], 0.5))
    np.testing.assert_allclose(weight.kl(), 0.0, atol=1e-6)
    # It takes the mean that it is handed, for a stateless call.
    np.testing.assert_allclose(
        weight.kl(keras.ops.ones([2, 3])), 6 * 0.5 / 0.5**2, rtol=1e-5
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_point_estimate_answers_without_randomness(dtype):
    variable = keras.Variable(np.array([1.0, 2.0], "float32"))
    weight = variational_weight.PointWeight("bias", variable)
    seed = keras.random.SeedGenerator(1)
    for value in (weight.mean(dtype), weight.sample(seed, dtype)):
        assert value.dtype == dtype
        np.testing.assert_array_equal(value, [1.0, 2.0])
    assert weight.perturbation(seed, dtype) is None
    assert weight.variance(dtype) is None
