import keras
import numpy as np
import pytest

from tests.support import bayesian_linear
from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import losses


@pytest.mark.parametrize("first", ["mean", "noise"])
def test_heads_of_their_own_are_told_apart_by_what_they_move(first, rng):
    x = rng.normal(size=(60, 3)).astype("float32")
    y = (10.0 + x @ rng.normal(size=(3, 2))).astype("float32")
    inputs = keras.Input((3,))
    # In the order of the calls, not of the outputs.
    heads = {
        name: layers.DenseReparameterization(
            2, name=name, **bayesian_linear.still()
        )(inputs)
        for name in sorted(["mean", "noise"], key=lambda name: name != first)
    }
    outputs = keras.layers.Concatenate()([heads["mean"], heads["noise"]])
    model = keras.Model(inputs, outputs)
    loss = losses.HeteroscedasticGaussianNLL()
    model.compile("sgd", loss)
    initializers.IBLM(
        seed=0,
        noise_variance=0.01,
        prior_variance=100.0,
        bias_prior_variance=100.0,
        verbose=False,
    )(model, x, y)
    loc, scale = map(np.asarray, loss.loc_and_scale(model(x)))
    np.testing.assert_allclose(loc, y, atol=0.05)
    np.testing.assert_allclose(scale, 0.1, rtol=0.05)


def test_a_narrow_layer_before_the_last_is_no_head(rng):
    x = rng.normal(size=(60, 3)).astype("float32")
    y = x.sum(axis=1)
    inputs = keras.Input((3,))
    narrow = layers.DenseReparameterization(
        1, "tanh", name="narrow", **bayesian_linear.still()
    )
    head = layers.DenseReparameterization(
        2, name="head", **bayesian_linear.still()
    )
    model = keras.Model(inputs, head(narrow(inputs)))
    model.compile("sgd", losses.HeteroscedasticGaussianNLL())
    model = initializers.IBLM(seed=0, verbose=False)(model, x, y)
    # It moves means and noises alike; as a mean head it would fit `y` itself,
    # but it fits `y` or `-y`, without its mean.
    signs = {
        np.sign(
            initializers.IBLM(seed=seed, verbose=False)(model, x, y)
            .get_layer("narrow")
            .kernel.numpy()
            .sum()
        )
        for seed in range(20)  # all the same once in 5e5
    }
    assert signs == {-1.0, 1.0}


@pytest.mark.parametrize("posterior", [None, "mean_field"])
def test_a_frozen_bias_stays(posterior, rng):
    x = rng.normal(size=(60, 3)).astype("float32")
    model = bayesian_linear.dense_model(3, 1, bias_posterior=posterior)
    layer = model.get_layer("linear")
    layer.bias.assign([7.0])
    layer.bias.trainable = False
    initializers.IBLM(seed=0, verbose=False)(model, x, x.sum(axis=1))
    np.testing.assert_array_equal(layer.bias, [7.0])
    assert np.abs(layer.kernel.numpy()).min() > 0.5
