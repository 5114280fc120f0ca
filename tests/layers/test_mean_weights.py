import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import layers


@pytest.fixture
def model():
    """Two layers that draw, and draw much."""
    posterior = layers.MeanFieldPosterior(1.0)
    return keras.Sequential(
        [
            keras.Input((3,)),
            layers.DenseFlipout(4, kernel_posterior=posterior),
            layers.DenseReparameterization(2, kernel_posterior=posterior),
        ]
    )


X = np.ones([2, 3], "float32")


def is_random(function):
    """Tells whether two calls differ."""
    return not np.allclose(function(X), function(X))


def test_layers_do_not_sample_inside_the_scope(model):
    assert is_random(model)
    with layers.mean_weights():
        assert not is_random(model)
        inside = model(X)
    assert is_random(model)
    expected = X
    for layer in model.layers:
        expected = layer(expected, sample=False)
    np.testing.assert_allclose(inside, expected, rtol=1e-6)


def test_scopes_nest_and_can_be_lifted(model):
    with layers.mean_weights():
        with layers.mean_weights():
            pass
        assert not is_random(model)
        with layers.mean_weights(active=False):
            assert is_random(model)
        assert not is_random(model)
    assert is_random(model)


def test_an_error_ends_the_scope(model):
    with pytest.raises(RuntimeError), layers.mean_weights():
        raise RuntimeError
    assert is_random(model)


def test_a_function_stays_as_it_was_traced(model):
    mean, random = tf.function(model), tf.function(model)
    random(X)
    with layers.mean_weights():
        mean(X)
        assert is_random(random)
    assert not is_random(mean)


def test_a_layer_that_never_samples_is_not_made_to(model):
    layer = layers.DenseFlipout(
        2, kernel_posterior=layers.MeanFieldPosterior(1.0), sample=False
    )
    with layers.mean_weights(active=False):
        assert not is_random(layer)


def test_other_threads_are_not_concerned(model):
    found = []
    with layers.mean_weights():
        thread = threading.Thread(target=lambda: found.append(is_random(model)))
        thread.start()
        thread.join()
    assert found == [True]
