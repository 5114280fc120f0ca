import numpy as np
import pytest
import tensorflow as tf

from tests.support import flow_checks
from tfp_refine.math import planar_flow

# Of the parameters, and of the points.
BATCHES = [((), ()), ((4,), (3, 4)), ((3, 1), (4,))]


def draw(rng, batch, size):
    """Draws `u`, `w` and `b`."""
    return [
        tf.constant(rng.normal(0.0, 1.5, size=(*batch, size))),
        tf.constant(rng.normal(0.0, 1.5, size=(*batch, size))),
        tf.constant(rng.normal(size=batch)),
    ]


def along_first_axis(along, dtype=tf.float64):
    """Returns `u`, `w` and `b` where `w.u` is `along`, and `w.x` is `3 x_1`."""
    numbers = [along / 3.0, 0.5], [3.0, 0.0], 0.0
    return [tf.constant(value, dtype) for value in numbers]


def near_the_plane(dtype=tf.float64):
    """Returns points at distances of 0 to 10 from it, `[23, 2]`."""
    distances = np.concatenate([[0.0], np.logspace(-20, 1, 22)])
    return tf.constant(np.stack([distances, np.ones(23)], axis=-1), dtype)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("batch", "points"), BATCHES)
def test_points_move_as_printed(rng, batch, points, size):
    parameters = draw(rng, batch, size)
    x = tf.constant(rng.normal(size=(*points, size)))
    y, log_det = planar_flow.forward(x, *parameters)

    # Eq. 10 to 12 and Appendix A.1, as they are printed.
    u, w, b = (value.numpy() for value in parameters)
    product = np.sum(w * u, axis=-1, keepdims=True)
    wanted = -1.0 + np.log1p(np.exp(product))
    squared = np.sum(w * w, axis=-1, keepdims=True)
    u_hat = u + (wanted - product) * w / squared
    bend = np.tanh(np.sum(w * x, axis=-1) + b)[..., None]
    psi = (1.0 - bend**2) * w
    np.testing.assert_allclose(y, x + u_hat * bend, rtol=1e-12)
    assert log_det.shape == y.shape[:-1]
    np.testing.assert_allclose(
        log_det,
        np.log(np.abs(1.0 + np.sum(u_hat * psi, axis=-1))),
        rtol=1e-11,
        atol=1e-13,
    )


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("batch", "points"), BATCHES)
def test_log_det_is_that_of_the_jacobian(rng, batch, points, size):
    parameters = draw(rng, batch, size)
    shape = np.broadcast_shapes(batch, points)
    flow_checks.assert_log_det(
        lambda x: planar_flow.forward(x, *parameters),
        tf.constant(rng.normal(size=(*shape, size))),
        rtol=1e-10,
    )


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("batch", "points"), BATCHES)
def test_inverse_undoes_it_and_has_its_gradients(rng, batch, points, size):
    parameters = draw(rng, batch, size)
    x = tf.constant(
        rng.normal(size=(*np.broadcast_shapes(batch, points), size))
    )
    flow_checks.assert_inverse(
        lambda x: planar_flow.forward(x, *parameters),
        lambda y: planar_flow.inverse(y, *parameters),
        x,
        rtol=1e-11,
    )
    flow_checks.assert_inverse_gradients(
        planar_flow.forward, planar_flow.inverse, x, parameters
    )


@pytest.mark.parametrize("batched", [0, 1, 2])
def test_parameters_may_have_different_batches(rng, batched):
    parameters = draw(rng, (), 2)
    parameters[batched] = draw(rng, (4,), 2)[batched]
    x = tf.constant(rng.normal(size=2))
    found, log_det = planar_flow.forward(x, *parameters)
    back = planar_flow.inverse(x, *parameters)
    assert found.shape == back.shape == [4, 2]
    assert log_det.shape == [4]
    spread = [
        tf.broadcast_to(value, [4, *value.shape[value.shape.rank - ndims :]])
        for value, ndims in zip(parameters, (1, 1, 0), strict=True)
    ]
    np.testing.assert_allclose(found, planar_flow.forward(x, *spread)[0])
    np.testing.assert_allclose(back, planar_flow.inverse(x, *spread))


@pytest.mark.slow
@pytest.mark.parametrize("along", [-50.0, -20.0, 0.0, 50.0])
def test_extreme_directions_are_undone(rng, along):
    parameters = along_first_axis(along)
    flow_checks.assert_inverse(
        lambda x: planar_flow.forward(x, *parameters),
        lambda y: planar_flow.inverse(y, *parameters),
        tf.constant(rng.normal(size=(20, 2))),
        rtol=1e-9,
    )
    # Near the plane all lie together: only `y` says how well it is undone.
    y = near_the_plane()
    back = planar_flow.inverse(y, *parameters)
    np.testing.assert_allclose(
        planar_flow.forward(back, *parameters)[0], y, rtol=1e-12, atol=1e-13
    )


@pytest.mark.slow
@pytest.mark.parametrize("along", [-1000.0, -120.0, -20.0, 50.0])
def test_extreme_directions_are_undone_in_single_precision(along):
    parameters = along_first_axis(along, tf.float32)
    x = near_the_plane(tf.float32)
    y, log_det = planar_flow.forward(x, *parameters)
    assert y.dtype == log_det.dtype == tf.float32
    assert np.all(np.isfinite(log_det))
    for points in (x, y):
        back = planar_flow.inverse(points, *parameters)
        assert back.dtype == tf.float32
        assert np.all(np.isfinite(back))
        np.testing.assert_allclose(
            planar_flow.forward(back, *parameters)[0],
            points,
            rtol=3e-6,
            atol=1e-4,
        )


@pytest.mark.parametrize("along", [-60.0, -20.0, 0.0, 20.0])
def test_points_in_the_plane_are_shrunk_as_much_as_softplus_says(along):
    x = tf.constant([0.0, 1.0], tf.float32)
    _, log_det = planar_flow.forward(x, *along_first_axis(along, tf.float32))
    expected = np.log(np.log1p(np.exp(along)))
    np.testing.assert_allclose(log_det, expected, rtol=1e-5)


@pytest.mark.parametrize("along", [-20.0, 0.0, 20.0])
def test_points_far_from_the_plane_keep_their_distances(along):
    x = tf.constant([30.0, 1.0], tf.float64)
    parameters = along_first_axis(along)
    _, log_det = planar_flow.forward(x, *parameters)
    np.testing.assert_allclose(log_det, 0.0, atol=1e-14)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("size", [0.0, 1e-20])
def test_no_plane_is_a_translation(size, dtype):
    x, u, direction = tf.unstack(
        tf.constant([[1.0, 2.0], [0.5, -0.3], [1.0, 1.0]], dtype)
    )
    w, b = size * direction, tf.constant(0.7, dtype)
    y, log_det = planar_flow.forward(x, u, w, b)
    np.testing.assert_allclose(y, x + u * np.tanh(0.7), rtol=1e-6)
    np.testing.assert_allclose(log_det, 0.0, atol=1e-6)
    np.testing.assert_allclose(planar_flow.inverse(y, u, w, b), x, rtol=1e-6)
    for function in (planar_flow.forward, planar_flow.inverse):
        flow_checks.assert_finite_gradients(function, [x, u, w, b])
