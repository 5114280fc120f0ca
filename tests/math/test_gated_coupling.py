import numpy as np
import pytest
import tensorflow as tf

from tests.support import flow_checks
from tfp_refine.math import gated_coupling

HIDDEN = 3
# Of the network, of the mask, and of the points.
BATCHES = [
    ((), (), ()),
    ((), (7,), (7,)),
    ((4,), (4,), (3, 4)),
    ((3, 1), (), (4,)),
]


def draw(rng, batch, size):
    """Draws a network."""
    shapes = [[size, HIDDEN], [HIDDEN], *([HIDDEN, size], [size]) * 2]
    return gated_coupling.Network(
        *(tf.constant(rng.normal(size=(*batch, *shape))) for shape in shapes)
    )


def draw_mask(rng, batch, size):
    return tf.constant(rng.integers(2, size=(*batch, size)), tf.float64)


def cast(network):
    return gated_coupling.Network(
        *(tf.cast(value, tf.float32) for value in network)
    )


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(("batch", "masks", "points"), BATCHES)
def test_points_move_as_printed(rng, batch, masks, points, size):
    network = draw(rng, batch, size)
    mask = draw_mask(rng, masks, size)
    z = tf.constant(rng.normal(size=(*points, size)))
    found, log_det = gated_coupling.forward(z, mask, network)

    # Eq. 8 and 9, as they are printed.
    def affine(x, kernel, bias):
        return np.einsum("...i,...ij->...j", x, kernel) + bias

    m = mask.numpy()
    h = np.tanh(affine(m * z, *network[:2]))
    mu, raw = affine(h, *network[2:4]), affine(h, *network[4:])
    sigma = 1.0 / (1.0 + np.exp(-raw))
    expected = m * z + (1.0 - m) * (z * sigma + (1.0 - sigma) * mu)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert log_det.shape == found.shape[:-1]
    np.testing.assert_allclose(
        log_det, np.sum((1.0 - m) * np.log(sigma), axis=-1), rtol=1e-12
    )


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(("batch", "masks", "points"), BATCHES)
def test_log_det_is_that_of_the_jacobian(rng, batch, masks, points, size):
    network, mask = draw(rng, batch, size), draw_mask(rng, masks, size)
    shape = np.broadcast_shapes(batch, points)
    flow_checks.assert_log_det(
        lambda z: gated_coupling.forward(z, mask, network),
        tf.constant(rng.normal(size=(*shape, size))),
    )


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(("batch", "masks", "points"), BATCHES)
def test_inverse_undoes_it_and_has_its_gradients(
    rng, batch, masks, points, size
):
    network, mask = draw(rng, batch, size), draw_mask(rng, masks, size)
    shape = np.broadcast_shapes(batch, points)
    z = tf.constant(rng.normal(size=(*shape, size)))
    flow_checks.assert_inverse(
        lambda z: gated_coupling.forward(z, mask, network),
        lambda z: gated_coupling.inverse(z, mask, network),
        z,
        rtol=1e-12,
    )
    flow_checks.assert_inverse_gradients(
        lambda z, *v: gated_coupling.forward(
            z, mask, gated_coupling.Network(*v)
        ),
        lambda z, *v: gated_coupling.inverse(
            z, mask, gated_coupling.Network(*v)
        ),
        z,
        list(network),
    )


def test_what_the_mask_keeps_stays_and_decides(rng):
    network = draw(rng, (), 4)
    mask = tf.constant([1.0, 0.0, 1.0, 0.0], tf.float64)
    z = tf.constant(rng.normal(size=(20, 4)))
    found, _ = gated_coupling.forward(z, mask, network)
    np.testing.assert_array_equal(found[:, ::2], z[:, ::2])
    jacobian = flow_checks.jacobian(
        lambda z: gated_coupling.forward(z, mask, network)[0], z
    )
    assert np.all(jacobian[:, 1::2, ::2])
    off_diagonal = ~np.eye(2, dtype=bool)
    assert not np.any(jacobian[:, 1::2, 1::2][:, off_diagonal])


def test_nothing_moves_if_the_mask_keeps_all(rng):
    network, mask = draw(rng, (), 4), tf.ones([4], tf.float64)
    z = tf.constant(rng.normal(size=(20, 4)))
    found, log_det = gated_coupling.forward(z, mask, network)
    np.testing.assert_array_equal(found, z)
    np.testing.assert_array_equal(log_det, np.zeros(20))
    back = gated_coupling.inverse(z, mask, network)
    np.testing.assert_array_equal(back, z)


def test_all_move_by_themselves_if_the_mask_keeps_none(rng):
    network, mask = draw(rng, (), 4), tf.zeros([4], tf.float64)
    z = tf.constant(rng.normal(size=(20, 4)))
    jacobian = flow_checks.jacobian(
        lambda z: gated_coupling.forward(z, mask, network)[0], z
    )
    hidden = np.tanh(network.hidden_bias)
    raw = hidden @ network.gate_kernel.numpy() + network.gate_bias
    gates = np.diag(1.0 / (1.0 + np.exp(-raw)))
    expected = np.broadcast_to(gates, jacobian.shape)
    np.testing.assert_allclose(jacobian, expected, rtol=1e-12)


def test_open_gates_are_the_identity(rng):
    network = draw(rng, (), 4)._replace(
        gate_bias=tf.constant([50.0] * 4, tf.float64)
    )
    z, mask = tf.constant(rng.normal(size=(20, 4))), draw_mask(rng, (20,), 4)
    found, log_det = gated_coupling.forward(z, mask, network)
    np.testing.assert_allclose(found, z, rtol=1e-14)
    np.testing.assert_allclose(log_det, 0.0, atol=1e-18)


@pytest.mark.parametrize("gate_bias", [-1000.0, -110.0, -80.0])
def test_closed_gates_in_single_precision_leave_all_finite(rng, gate_bias):
    network = cast(draw(rng, (), 4))._replace(
        gate_kernel=tf.zeros([HIDDEN, 4]), gate_bias=tf.fill([4], gate_bias)
    )
    mask = tf.constant([1.0, 0.0, 1.0, 0.0])
    z = tf.constant(rng.normal(size=(20, 4)), tf.float32)
    found, log_det = gated_coupling.forward(z, mask, network)
    assert found.dtype == log_det.dtype == tf.float32
    np.testing.assert_allclose(log_det, np.full(20, 2.0 * gate_bias), rtol=1e-6)
    flow_checks.assert_finite_gradients(
        lambda z, *v: gated_coupling.forward(
            z, mask, gated_coupling.Network(*v)
        ),
        [z, *network],
    )


@pytest.mark.parametrize("gate_bias", [-1000.0, -110.0, -80.0])
def test_what_the_mask_keeps_survives_the_inverse_of_closed_gates(
    rng, gate_bias
):
    # Nothing is left of the others.
    network = cast(draw(rng, (), 4))._replace(gate_bias=tf.fill([4], gate_bias))
    mask = tf.constant([1.0, 0.0, 1.0, 0.0])
    z = tf.constant(rng.normal(size=(20, 4)), tf.float32)
    found, _ = gated_coupling.forward(z, mask, network)
    back = gated_coupling.inverse(found, mask, network)
    np.testing.assert_array_equal(back[:, ::2], z[:, ::2])


def test_nearly_closed_gates_are_undone(rng):
    network = draw(rng, (), 4)._replace(
        gate_kernel=tf.zeros([HIDDEN, 4], tf.float64),
        gate_bias=tf.fill([4], tf.constant(-15.0, tf.float64)),
    )
    mask = tf.constant([0.0, 0.0, 1.0, 0.0], tf.float64)
    flow_checks.assert_inverse(
        lambda z: gated_coupling.forward(z, mask, network),
        lambda z: gated_coupling.inverse(z, mask, network),
        tf.constant(rng.normal(size=(20, 4))),
        rtol=np.exp(15.0) * 1e-15,
    )


def test_single_precision_is_that_of_double(rng):
    network, mask = draw(rng, (), 4), draw_mask(rng, (20,), 4)
    z = tf.constant(rng.normal(size=(20, 4)))
    expected = gated_coupling.forward(z, mask, network)
    found = gated_coupling.forward(
        tf.cast(z, tf.float32), tf.cast(mask, tf.float32), cast(network)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
