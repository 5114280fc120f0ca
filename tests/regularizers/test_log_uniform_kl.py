import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import layers
from tfp_refine import regularizers
from tfp_refine.math import gaussian
from tfp_refine.math import log_uniform


def test_kl_is_the_approximation_summed_over_the_tensor(rng):
    loc = tf.constant(rng.normal(size=(6, 5)))
    scale = tf.constant(rng.uniform(0.1, 2.0, size=(6, 5)))
    kl = regularizers.LogUniformKL()(loc, scale)
    assert kl.shape == []
    assert kl.dtype == "float64"
    expected = log_uniform.kl_divergence(gaussian.Gaussian(loc, scale))
    np.testing.assert_allclose(kl, np.sum(expected), rtol=1e-14)
    assert kl > 0.0


def test_kl_falls_with_the_noise(rng):
    loc = rng.normal(size=20)
    regularizer = regularizers.LogUniformKL()
    kls = [
        float(regularizer(loc, ratio * np.abs(loc)))
        for ratio in (0.03, 0.3, 3.0, 30.0)
    ]
    assert np.all(np.diff(kls) < 0.0)
    assert 0.0 < kls[-1] < 0.1


def test_there_is_no_gaussian_prior():
    message = "The prior of LogUniformKL is not Gaussian"
    with pytest.raises(ValueError, match=message):
        regularizers.LogUniformKL().prior(np.zeros(3), np.ones(3))


# Pruning.


@pytest.mark.parametrize("arguments", [{}, {"threshold": 3.0}])
def test_weights_are_pruned_from_the_threshold_on(arguments):
    threshold = arguments.get("threshold", 5.0)
    loc = np.array([[0.5, -0.5, 2.0], [-2.0, 0.5, 0.5]])
    log_ratio = threshold + np.array([[-3.0, 3.0, -0.01], [0.01, -0.01, 0.01]])
    scale = np.abs(loc) * np.exp(log_ratio / 2.0)
    pruned = regularizers.LogUniformKL().pruned(loc, scale, **arguments)
    assert pruned.dtype == "bool"
    np.testing.assert_array_equal(
        pruned, [[False, True, False], [True, False, True]]
    )


def test_a_mean_of_zero_is_pruned_but_for_tiny_noise():
    pruned = regularizers.LogUniformKL().pruned(
        np.zeros(2, "float32"), np.array([0.1, 1e-4], "float32")
    )
    np.testing.assert_array_equal(pruned, [True, False])


def test_weights_of_a_layer_can_be_pruned():
    layer = layers.DenseLocalReparameterization(
        3,
        kernel_regularizer="log_uniform_kl",
        bias_regularizer="log_uniform_kl",
        num_train_examples=10,
    )
    layer.build((None, 2))
    weight, _ = layer.variational_weights
    weight.assign(loc=np.ones((2, 3)), scale=[[0.1, 1.0, 10], [20, 30, 0.1]])
    pruned = weight.regularizer.pruned(weight.loc, weight.scale)
    np.testing.assert_array_equal(
        pruned, [[False, False, False], [True, True, False]]
    )


# Training.


@pytest.mark.slow
def test_training_prunes_what_does_not_matter(rng):
    layer = layers.DenseLocalReparameterization(
        1,
        kernel_posterior=layers.MeanFieldPosterior(0.1),
        kernel_regularizer="log_uniform_kl",
        bias_regularizer="log_uniform_kl",
        num_train_examples=200,
        seed=1,
    )
    layer.build((None, 4))
    x = rng.normal(size=(200, 4)).astype("float32")
    noise = rng.normal(scale=0.3, size=(200, 1))
    y = (2.0 * x[:, :1] - x[:, 1:2] + noise).astype("float32")
    optimizer = keras.optimizers.Adam(0.05)
    optimizer.build(layer.trainable_variables)

    @tf.function
    def train():
        for _ in tf.range(300):
            with tf.GradientTape() as tape:
                squares = keras.ops.square((y - layer(x)) / 0.3)
                loss = 0.5 * keras.ops.mean(squares) + sum(layer.losses)
            variables = layer.trainable_variables
            gradients = tape.gradient(loss, [v.value for v in variables])
            optimizer.apply(gradients, variables)

    train()
    kernel, _ = layer.variational_weights
    np.testing.assert_allclose(
        np.ravel(kernel.loc), [2.0, -1.0, 0.0, 0.0], atol=0.1
    )
    pruned = kernel.regularizer.pruned(kernel.loc, kernel.scale, threshold=0.0)
    np.testing.assert_array_equal(np.ravel(pruned), [False, False, True, True])


# Configuration.


def test_config_survives_a_round_trip():
    config = keras.saving.serialize_keras_object(regularizers.LogUniformKL())
    assert config["registered_name"] == "tfp_refine>LogUniformKL"
    restored = keras.saving.deserialize_keras_object(config)
    assert type(restored) is regularizers.LogUniformKL
    assert restored.get_config() == {}
