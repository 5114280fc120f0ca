import numpy as np
import pytest
import tensorflow as tf

from tfp_refine.math import softplus


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 0.5, 1.0, 40.0])
def test_inverse_undoes_softplus(scale):
    for raw in (
        softplus.inverse(tf.constant(scale, tf.float64)),
        tf.constant(softplus.inverse_of_float(scale), tf.float64),
    ):
        np.testing.assert_allclose(tf.math.softplus(raw), scale, rtol=1e-8)


def test_scales_that_vanish_stop_where_training_still_has_a_gradient():
    raw = softplus.inverse(np.array([0.0, 1e-30, 1e-9]))
    np.testing.assert_array_equal(raw, [-20.0] * 3)
    assert softplus.inverse_of_float(1e-30) == -20.0
    assert softplus.inverse(1e-8) > -20.0


def test_float32_keeps_relative_accuracy():
    scale = np.array([1e-6, 1e-3, 3.0], np.float32)
    raw = softplus.inverse(scale)
    assert raw.dtype == tf.float32
    np.testing.assert_allclose(tf.math.softplus(raw), scale, rtol=2e-6)
