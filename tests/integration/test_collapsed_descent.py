"""Without data, posteriors go where the collapsed divergences are least."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tfp_refine import layers
from tfp_refine import regularizers

# The regularizer, and the variance that is left: of 4 inputs `gamma` is 1/4.
MINIMA = {
    "collapsed_mean": (regularizers.CollapsedMeanKL(0.05), 0.25),
    "collapsed_mean_scaled": (regularizers.CollapsedMeanKL(0.3, 0.6), 0.36),
    "collapsed_variance": (regularizers.CollapsedVarianceKL(), 0.02),
    "collapsed_mean_variance": (
        regularizers.CollapsedMeanVarianceKL(2.0, 0.3, 0.2),
        0.15,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MINIMA)
def test_adam_reaches_the_stated_minimum(name):
    regularizer, variance = MINIMA[name]
    layer = layers.DenseLocalReparameterization(
        3,
        kernel_regularizer=regularizer,
        bias_regularizer=regularizer,
        num_train_examples=10,
    )
    layer.build((None, 4))
    layer_case.spread(layer)
    variables = layer.trainable_variables
    optimizer = keras.optimizers.Adam(
        keras.optimizers.schedules.CosineDecay(0.03, 600)
    )
    optimizer.build(variables)

    @tf.function
    def train():
        for _ in tf.range(600):
            with tf.GradientTape() as tape:
                kl = keras.ops.sum(layer.losses)
            gradients = tape.gradient(kl, [v.value for v in variables])
            optimizer.apply(gradients, variables)

    train()
    for weight in layer.variational_weights:
        np.testing.assert_allclose(
            weight.loc, 0.0, atol=0.01 * np.sqrt(variance)
        )
        np.testing.assert_allclose(np.square(weight.scale), variance, rtol=0.01)
