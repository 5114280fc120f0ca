"""Checks that tests of several normalizing flows share.

All points are `[..., D]`; `forward(x)` returns points and log determinants.
"""

import numpy as np
import tensorflow as tf


def jacobian(function, x):
    """Computes the Jacobian of `function` at each point, `[..., D, D]`."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        coordinates = tf.unstack(function(x), axis=-1)
    rows = [
        tape.gradient(y, x, unconnected_gradients="zero") for y in coordinates
    ]
    return tf.stack(rows, axis=-2).numpy()


def assert_log_det(forward, x, rtol=1e-11):
    """Asserts that log determinants are those of the Jacobian."""
    found = forward(x)[1]
    sign, expected = np.linalg.slogdet(jacobian(lambda x: forward(x)[0], x))
    np.testing.assert_array_equal(sign, 1.0)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def assert_inverse(forward, inverse, x, rtol=1e-9):
    """Asserts that `inverse(y)` undoes `forward`, in both orders."""
    y = forward(x)[0]
    assert y.dtype == x.dtype
    back = inverse(y)
    assert back.dtype == x.dtype
    np.testing.assert_allclose(back, x, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(forward(back)[0], y, rtol=rtol, atol=rtol)


def assert_inverse_gradients(forward, inverse, x, parameters, rtol=1e-8):
    """Asserts that gradients of `inverse` follow from those of `forward`.

    Args:
        forward: Function of points and parameters.
        inverse: Function of points and parameters.
        x: Points, `[..., D]`.
        parameters: List of tensors.
        rtol: Relative and absolute tolerance.
    """
    y = forward(x, *parameters)[0]
    upstream = tf.cos(tf.reshape(tf.range(tf.size(x), dtype=x.dtype), x.shape))
    with tf.GradientTape() as tape:
        tape.watch([y, *parameters])
        loss = tf.reduce_sum(upstream * inverse(y, *parameters))
    found = tape.gradient(loss, [y, *parameters])

    # x = f^-1(y, p): dx/dy = J^-1 and dx/dp = -J^-1 df/dp.
    square = jacobian(lambda x: forward(x, *parameters)[0], x)
    back = tf.linalg.matvec(np.linalg.inv(square), upstream, transpose_a=True)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        loss = -tf.reduce_sum(back * forward(x, *parameters)[0])
    expected = [back, *tape.gradient(loss, parameters)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


def assert_finite_gradients(function, inputs):
    """Asserts that values and their gradients are finite."""
    inputs = [tf.convert_to_tensor(value) for value in inputs]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        outputs = tf.nest.flatten(function(*inputs))
    for output in outputs:
        assert np.all(np.isfinite(output))
        for gradient in tape.gradient(output, inputs):
            assert gradient is None or np.all(np.isfinite(gradient))
