import keras
import numpy as np
import tensorflow as tf

from tfp_refine.math import adam


def test_adam_equals_keras(rng):
    start, gradients = rng.normal(size=6), rng.normal(size=(5, 6))
    variable = keras.Variable(start, dtype="float64")
    optimizer = keras.optimizers.Adam(0.01)
    params = tf.constant(start)
    moments = adam.AdamState(tf.zeros_like(params), tf.zeros_like(params))
    for step, gradient in enumerate(gradients):
        optimizer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
        params, moments = adam.step(
            params,
            tf.constant(gradient),
            moments,
            tf.constant(step),
            tf.constant(0.01, tf.float64),
        )
    # Keras holds the learning rate in float32.
    np.testing.assert_allclose(params, variable.numpy(), atol=1e-6)
