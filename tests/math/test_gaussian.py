import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import stats

from tfp_refine.math import gaussian

tfd = tfp.distributions

# E[f(z)] = sum(WEIGHTS * f(NODES)) for z ~ N(0, 1), exact for polynomials.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(10)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def make(loc, scale, dtype=tf.float64):
    return gaussian.Gaussian(tf.constant(loc, dtype), tf.constant(scale, dtype))


def expect(q, function):
    """Integrates `function(w)` over `w ~ q` by Gauss-Hermite quadrature."""
    nodes = q.loc + q.scale * NODES[:, None]
    return np.sum(WEIGHTS[:, None] * function(nodes), axis=0)


@pytest.fixture
def q(rng):
    return make(rng.normal(size=40), rng.uniform(0.05, 3.0, size=40))


@pytest.fixture
def p(rng):
    return make(rng.normal(size=40), rng.uniform(0.05, 3.0, size=40))


def test_log_prob_is_the_normal_density(rng, p):
    x = rng.normal(0.0, 5.0, size=(3, 40))
    found = gaussian.log_prob(tf.constant(x), p)
    expected = stats.norm(p.loc, p.scale).logpdf(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("x", "scale"), [(1.0, 1e-18), (3e-25, 1e-25)])
def test_log_prob_in_single_precision_survives_small_scales(x, scale):
    found = gaussian.log_prob(
        tf.constant(x, tf.float32), make(0.0, scale, tf.float32)
    )
    expected = stats.norm(0.0, scale).logpdf(x)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_kl_divergence_is_that_of_tfp(q, p):
    expected = tfd.kl_divergence(tfd.Normal(*q), tfd.Normal(*p))
    found = gaussian.kl_divergence(q, p)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_kl_divergence_is_the_expected_difference_of_log_densities(q, p):
    found = expect(
        q, lambda w: gaussian.log_prob(w, q) - gaussian.log_prob(w, p)
    )
    np.testing.assert_allclose(
        gaussian.kl_divergence(q, p), found, rtol=1e-10, atol=1e-12
    )


def test_kl_divergence_of_equals_is_zero_and_so_is_its_gradient(q):
    loc, scale = tf.Variable(q.loc), tf.Variable(q.scale)
    with tf.GradientTape() as tape:
        kl = gaussian.kl_divergence(gaussian.Gaussian(loc, scale), q)
    np.testing.assert_allclose(kl, 0.0, atol=1e-15)
    for gradient in tape.gradient(kl, [loc, scale]):
        np.testing.assert_allclose(gradient, 0.0, atol=1e-13)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (3, 4)])
def test_gradient_of_kl_divergence_is_that_of_tfp(rng, shape):
    parameters = [
        tf.constant(rng.normal(size=(3, 4))),
        tf.constant(rng.uniform(0.1, 2.0, size=(3, 4))),
        tf.constant(rng.normal(size=shape)),
        tf.constant(rng.uniform(0.1, 2.0, size=shape)),
    ]
    upstream = rng.normal(size=(3, 4))

    def ours(q_loc, q_scale, p_loc, p_scale):
        return gaussian.kl_divergence(
            gaussian.Gaussian(q_loc, q_scale), gaussian.Gaussian(p_loc, p_scale)
        )

    def theirs(q_loc, q_scale, p_loc, p_scale):
        normal = tfp.distributions.Normal
        return tfp.distributions.kl_divergence(
            normal(q_loc, q_scale), normal(p_loc, p_scale)
        )

    gradients = [
        tfp.math.value_and_gradient(
            lambda *v, f=function: tf.reduce_sum(upstream * f(*v)), parameters
        )[1]
        for function in (ours, theirs)
    ]
    for one, other in zip(*gradients, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-11)


def test_gradient_of_kl_divergence_works_for_shapes_known_late(q):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float64)] * 2)
    def gradient(loc, scale):
        p = gaussian.Gaussian(0.5, 2.0)
        with tf.GradientTape() as tape:
            tape.watch(loc)
            kl = gaussian.kl_divergence(gaussian.Gaussian(loc, scale), p)
        return tape.gradient(kl, loc)

    np.testing.assert_allclose(
        gradient(tf.constant([1.0, 3.0], tf.float64), [1.0, 1.0]),
        [0.125, 0.625],
    )


def test_prior_may_be_one_scalar_for_the_whole_tensor(q):
    p = make(0.3, 0.7)
    spread = make(np.full(40, 0.3), np.full(40, 0.7))
    for found, expected in (
        (gaussian.kl_divergence(q, p), gaussian.kl_divergence(q, spread)),
        (gaussian.log_prob(q.loc, p), gaussian.log_prob(q.loc, spread)),
    ):
        assert found.shape == [40]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("unit", [1e-30, 1e-20, 1e-4, 1e15])
@pytest.mark.parametrize("ratio", [1e-6, 1e-4, 0.1, 3.0])
def test_kl_divergence_in_single_precision_is_the_same_in_all_units(
    unit, ratio
):
    q = make([0.5 * unit, -2.0 * unit], ratio * unit, tf.float32)
    p = make(0.1 * unit, unit, tf.float32)
    assert gaussian.kl_divergence(q, p).dtype == tf.float32
    np.testing.assert_allclose(
        gaussian.kl_divergence(q, p),
        gaussian.kl_divergence(make([0.5, -2.0], ratio), make(0.1, 1.0)),
        rtol=1e-6,
    )


def test_vanishing_kl_divergence_in_single_precision_is_exact_to_rounding(rng):
    near = 1.0 + np.float32(1e-4) * rng.normal(size=1000).astype(np.float32)
    found = gaussian.kl_divergence(
        make(0.0, near, tf.float32), make(0.0, 1.0, tf.float32)
    )
    exact = gaussian.kl_divergence(make(0.0, near), make(0.0, 1.0))
    np.testing.assert_allclose(found, exact, rtol=0.0, atol=2e-7)


def test_second_moment_is_the_expected_square(q):
    found = gaussian.second_moment(q)
    np.testing.assert_allclose(found, expect(q, np.square), rtol=1e-12)


@pytest.mark.parametrize("p_loc", [0.0, -0.7])
def test_total_kl_divergence_is_the_sum_with_its_gradients(q, p_loc):
    arguments = [*q, *make(p_loc, 0.6)]

    def derivatives(function):
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(arguments)
            with tf.GradientTape() as tape:
                tape.watch(arguments)
                kl = 3.0 * function(arguments)
            first = tape.gradient(kl, arguments)
            total = sum(tf.reduce_sum(tf.square(one)) for one in first)
        return [kl, *first, *outer.gradient(total, arguments)]

    def summed(x):
        a, b = gaussian.Gaussian(*x[:2]), gaussian.Gaussian(*x[2:])
        return tf.reduce_sum(gaussian.kl_divergence(a, b))

    def total(x):
        a, b = gaussian.Gaussian(*x[:2]), gaussian.Gaussian(*x[2:])
        return gaussian.total_kl_divergence(a, b)

    for found, expected in zip(
        derivatives(total), derivatives(summed), strict=True
    ):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_total_kl_divergence_broadcasts_the_scale(q):
    p = make(0.5, 0.6)
    one = gaussian.Gaussian(q.loc, q.scale[0])
    np.testing.assert_allclose(
        gaussian.total_kl_divergence(one, p),
        np.sum(gaussian.kl_divergence(one, p)),
        rtol=1e-12,
    )


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0])
def test_total_kl_divergence_in_single_precision_is_that_in_double(rng, scale):
    count = 2**18
    loc = rng.normal(size=count).astype("float32") * 0.01 * scale
    spread = rng.uniform(0.9, 1.1, size=count).astype("float32") * scale
    totals = [
        gaussian.total_kl_divergence(
            make(loc, spread, dtype), make(0.0, scale, dtype)
        )
        for dtype in (tf.float32, tf.float64)
    ]
    # To rounding of 1 nat a coordinate.
    np.testing.assert_allclose(*totals, atol=1e-7 * count, rtol=0.0)
