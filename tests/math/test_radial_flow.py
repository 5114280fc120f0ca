import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import flow_checks
from tfp_refine.math import radial_flow

# Of the parameters, and of the points.
BATCHES = [((), ()), ((4,), (3, 4)), ((3, 1), (4,))]
EXTREMES = list(itertools.product([-30.0, 0.5, 30.0], repeat=2))


def draw(rng, batch, size):
    """Draws `x0`, `alpha_prime` and `beta_prime`."""
    return [
        tf.constant(rng.normal(size=(*batch, size))),
        tf.constant(rng.normal(0.0, 2.0, size=batch)),
        tf.constant(rng.normal(0.0, 2.0, size=batch)),
    ]


def reference(x, x0, alpha_prime, beta_prime):
    """Computes Eq. 14 and the determinant below it, as they are printed."""
    alpha = np.log1p(np.exp(alpha_prime))
    beta = np.log1p(np.exp(beta_prime)) - alpha
    r = np.linalg.norm(x - x0, axis=-1)
    h, slope_of_h = 1.0 / (alpha + r), -1.0 / (alpha + r) ** 2
    y = x + (beta * h)[..., None] * (x - x0)
    det = (1.0 + beta * h) ** (x.shape[-1] - 1) * (
        1.0 + beta * h + beta * slope_of_h * r
    )
    return y, np.log(det)


def at_distances(rng, size):
    """Draws points at distances of 0.03 to 300 from zero, `[9, D]`."""
    x = rng.normal(size=(9, size))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    return tf.constant(x * np.logspace(-1.5, 2.5, 9)[:, None])


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("batch", "points"), BATCHES)
def test_points_move_as_printed(rng, batch, points, size):
    parameters = draw(rng, batch, size)
    x = tf.constant(rng.normal(size=(*points, size)))
    y, log_det = radial_flow.forward(x, *parameters)
    expected_y, expected_log_det = reference(
        x.numpy(), *(value.numpy() for value in parameters)
    )
    np.testing.assert_allclose(y, expected_y, rtol=1e-12)
    assert log_det.shape == y.shape[:-1]
    np.testing.assert_allclose(log_det, expected_log_det, rtol=1e-11)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("batch", "points"), BATCHES)
def test_log_det_is_that_of_the_jacobian(rng, batch, points, size):
    parameters = draw(rng, batch, size)
    shape = np.broadcast_shapes(batch, points)
    flow_checks.assert_log_det(
        lambda x: radial_flow.forward(x, *parameters),
        tf.constant(rng.normal(size=(*shape, size))),
    )


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("batch", "points"), BATCHES)
def test_inverse_undoes_it_and_has_its_gradients(rng, batch, points, size):
    parameters = draw(rng, batch, size)
    x = tf.constant(
        rng.normal(size=(*np.broadcast_shapes(batch, points), size))
    )
    flow_checks.assert_inverse(
        lambda x: radial_flow.forward(x, *parameters),
        lambda y: radial_flow.inverse(y, *parameters),
        x,
        rtol=1e-12,
    )
    flow_checks.assert_inverse_gradients(
        radial_flow.forward, radial_flow.inverse, x, parameters, rtol=1e-10
    )


@pytest.mark.parametrize(("alpha_prime", "beta_prime"), EXTREMES)
def test_extreme_parameters_are_undone(rng, alpha_prime, beta_prime):
    parameters = [
        tf.constant(value, tf.float64)
        for value in (np.zeros(3), alpha_prime, beta_prime)
    ]
    x = at_distances(rng, 3)
    flow_checks.assert_inverse(
        lambda x: radial_flow.forward(x, *parameters),
        lambda y: radial_flow.inverse(y, *parameters),
        x,
        rtol=1e-12,
    )
    flow_checks.assert_log_det(
        lambda x: radial_flow.forward(x, *parameters), x, rtol=1e-9
    )


@pytest.mark.parametrize(
    ("alpha_prime", "beta_prime"), [*EXTREMES, (0.5, 0.75), (-90.0, -90.0)]
)
def test_single_precision_is_that_of_double(rng, alpha_prime, beta_prime):
    # Far away the flow is near the identity, and log_det near zero.
    numbers = at_distances(rng, 3), np.zeros(3), alpha_prime, beta_prime
    single = [tf.cast(value, tf.float32) for value in numbers]
    double = [tf.cast(value, tf.float64) for value in single]
    y, log_det = radial_flow.forward(*single)
    exact_y, exact_log_det = radial_flow.forward(*double)
    size = np.linalg.norm([double[0], exact_y], axis=-1)
    size = np.max(size, axis=0)[:, None]
    np.testing.assert_allclose(y / size, exact_y / size, atol=1e-6)
    np.testing.assert_allclose(log_det, exact_log_det, rtol=2e-6, atol=1e-37)
    back = radial_flow.inverse(*single)
    np.testing.assert_allclose(back, radial_flow.inverse(*double), rtol=1e-5)
    assert y.dtype == log_det.dtype == back.dtype == tf.float32


@pytest.mark.parametrize("size", [1, 4])
def test_equal_parameters_are_the_identity(rng, size):
    x0, alpha_prime, _ = draw(rng, (6,), size)
    x = tf.constant(rng.normal(size=(6, size)))
    y, log_det = radial_flow.forward(x, x0, alpha_prime, alpha_prime)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(log_det, np.zeros(6))
    back = radial_flow.inverse(x, x0, alpha_prime, alpha_prime)
    np.testing.assert_allclose(back, x, rtol=1e-13)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    ("alpha_prime", "beta_prime"), [(-3.0, 0.5), (0.5, -3.0), (6.0, -1.0)]
)
def test_all_directions_are_scaled_alike_at_the_center(
    rng, size, alpha_prime, beta_prime
):
    alpha, sum_ = np.log1p(np.exp([alpha_prime, beta_prime]))
    x0 = tf.constant(rng.normal(size=size))
    parameters = tf.unstack(
        tf.constant([alpha_prime, beta_prime], dtype=tf.float64)
    )
    y, log_det = radial_flow.forward(x0, x0, *parameters)
    np.testing.assert_array_equal(y, x0)
    # The distance is held at 1e-12 there.
    rtol = 1e-11 * max(alpha, sum_) / min(alpha, sum_) ** 2
    expected = size * np.log(sum_ / alpha)
    np.testing.assert_allclose(log_det, expected, rtol=rtol, atol=rtol)
    for function, scale in (
        (lambda x: radial_flow.forward(x, x0, *parameters)[0], sum_ / alpha),
        (lambda y: radial_flow.inverse(y, x0, *parameters), alpha / sum_),
    ):
        np.testing.assert_allclose(
            flow_checks.jacobian(function, tf.identity(x0)),
            scale * np.eye(size),
            rtol=rtol,
        )


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize(
    ("alpha_prime", "beta_prime"), [(-30.0, 1.0), (1.0, -30.0), (1.0, 2.0)]
)
@pytest.mark.parametrize("function", [radial_flow.forward, radial_flow.inverse])
def test_gradients_at_the_center_are_finite(
    function, alpha_prime, beta_prime, dtype
):
    center = tf.constant([1.0, 0.5], dtype)
    flow_checks.assert_finite_gradients(
        function,
        [
            tf.identity(center),
            tf.identity(center),
            tf.constant(alpha_prime, dtype),
            tf.constant(beta_prime, dtype),
        ],
    )
