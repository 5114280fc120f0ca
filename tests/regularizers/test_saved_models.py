"""Models with each KL regularizer, through a `.keras` file and back."""

import keras
import numpy as np
import pytest

from tests.support import layer_case
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import regularizers

REGULARIZERS = {
    "gaussian": regularizers.GaussianKL("he"),
    "empirical_bayes": regularizers.EmpiricalBayesKL(
        initial_prior_scale="he", learn_mean=True
    ),
    "empirical_bayes_closed": regularizers.EmpiricalBayesKL(
        closed_form=True, learn_mean=True, inverse_gamma=(2.01, 0.101)
    ),
    "empirical_bayes_hyperprior": regularizers.EmpiricalBayesKL(
        inverse_gamma=(2.01, 0.101)
    ),
    "collapsed_mean": regularizers.CollapsedMeanKL(0.1, 0.7),
    "collapsed_mean_closed": regularizers.CollapsedMeanKL(
        learn="closed_form", exponential_rate=5.0
    ),
    "collapsed_mean_gradient": regularizers.CollapsedMeanKL(
        0.1, "he", learn="gradient", exponential_rate=5.0
    ),
    "collapsed_mean_shared": regularizers.CollapsedMeanKL(
        learn="gradient", shared=True
    ),
    "collapsed_variance": regularizers.CollapsedVarianceKL(1.5, 0.2),
    "collapsed_mean_variance": regularizers.CollapsedMeanVarianceKL(
        1.5, 0.2, 0.3
    ),
    "log_uniform": regularizers.LogUniformKL(),
    "scale_mixture": regularizers.ScaleMixtureKL(0.25, 0.8, 0.1),
}

# Variables that a prior learns, of a kernel and a bias together.
LEARNED = {
    "empirical_bayes": 4,
    "empirical_bayes_hyperprior": 2,
    "collapsed_mean_gradient": 1,
}


def make_model(regularizer, rng):
    """Returns a convolution and a dense layer, with weights of any value."""
    arguments = {
        "kernel_regularizer": regularizer,
        "bias_regularizer": regularizer,
        "num_train_examples": 10,
    }
    inputs = keras.Input((4, 4, 2))
    x = layers.Conv2DReparameterization(3, 2, **arguments)(inputs)
    x = keras.layers.Flatten()(x)
    model = keras.Model(
        inputs, layers.DenseReparameterization(2, **arguments)(x)
    )
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", REGULARIZERS)
def test_a_file_keeps_weights_and_losses(name, rng, tmp_path):
    config = REGULARIZERS[name].get_config()
    model = make_model(type(REGULARIZERS[name])(**config), rng)
    learned = 1 if config.get("shared") else 2 * LEARNED.get(name, 0)
    assert len(model.trainable_variables) == 8 + learned
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    for ours, theirs in zip(model.weights, loaded.weights, strict=True):
        assert ours.path == theirs.path
        np.testing.assert_array_equal(ours, theirs)
    x = rng.normal(size=(5, 4, 4, 2)).astype("float32")
    found = []
    for either in (model, loaded):
        # With the same draws, for divergences that need them.
        functional.seeds.reseed(either, 3)
        found.append((either(x), either.losses))
        assert len(either.losses) == 4
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    for layer in (loaded.layers[1], loaded.layers[3]):
        for regularizer in (layer.kernel_regularizer, layer.bias_regularizer):
            assert type(regularizer) is type(REGULARIZERS[name])
            assert regularizer.get_config() == config
    # Weights of their own.
    before = layer_case.values(loaded.weights)
    for variable in model.weights:
        variable.assign(variable + 1.0)
    for value, variable in zip(before, loaded.weights, strict=True):
        np.testing.assert_array_equal(value, variable)


@pytest.mark.slow
@pytest.mark.parametrize("name", REGULARIZERS)
def test_every_weight_has_a_gradient(name, rng):
    model = make_model(
        type(REGULARIZERS[name])(**REGULARIZERS[name].get_config()), rng
    )
    x = rng.normal(size=(5, 4, 4, 2)).astype("float32")
    model.compile(keras.optimizers.SGD(1e-3), "mse", run_eagerly=True)
    before = layer_case.values(model.trainable_weights)
    model.train_on_batch(x, np.zeros((5, 2), "float32"))
    for variable, old in zip(model.trainable_weights, before, strict=True):
        assert np.all(np.isfinite(variable)), variable.path
        assert np.any(np.array(variable) != old), variable.path
