import keras
import numpy as np
import pytest

from tests.support import bayesian_linear
from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import losses


@pytest.mark.parametrize("rate", [None, 0.01])
@pytest.mark.parametrize("first", ["mean", "noise"])
def test_heads_of_their_own_are_told_apart_by_what_they_move(first, rate, rng):
    x = rng.normal(size=(60, 3)).astype("float32")
    y = (10.0 + x @ rng.normal(size=(3, 2))).astype("float32")
    inputs = hidden = keras.Input((3,))
    if rate is not None:  # which no two calls have in common
        hidden = keras.layers.Dropout(rate)(inputs, training=True)
    # In the order of the calls, not of the outputs.
    heads = {
        name: layers.DenseReparameterization(
            2, name=name, **bayesian_linear.still()
        )(hidden)
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
    if rate is not None:
        assert np.corrcoef(loc.ravel(), y.ravel())[0, 1] > 0.5
        assert np.median(scale) < 0.2
        return
    np.testing.assert_allclose(loc, y, atol=0.05)
    np.testing.assert_allclose(scale, 0.1, rtol=0.05)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("activation", [None, "softmax"])
@pytest.mark.parametrize("seed", range(5))
def test_outputs_that_are_added_up_are_right_together(activation, seed, rng):
    centers = 6.0 * np.eye(3)
    labels = np.arange(150) % 3
    x = (centers[labels] + rng.normal(size=(150, 3))).astype("float32")
    inputs = keras.Input((3,))
    hidden = layers.DenseFlipout(30, "relu", seed=seed)(inputs)
    parts = [
        layers.DenseFlipout(3, seed=seed + 1)(hidden),
        layers.DenseFlipout(3, seed=seed + 2)(inputs),
    ]
    outputs = keras.layers.Add()(parts)
    if activation is not None:
        outputs = keras.layers.Activation(activation)(outputs)
    model = keras.Model(inputs, outputs)
    initializers.IBLM(seed=seed, verbose=False)(model, x, labels)
    with layers.mean_weights():
        found = np.argmax(model(x), axis=-1)
    assert np.mean(found == labels) > 0.9


def test_labels_that_do_not_exclude_each_other_have_logits_of_their_own(rng):
    x = rng.normal(size=(300, 3)).astype("float32")
    y = (x + 0.1 * rng.normal(size=x.shape) > [0.0, 1.0, -1.0]).astype("int32")
    model = bayesian_linear.dense_model(3, 3, dtype="float32")
    model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
    initializers.IBLM(seed=0, verbose=False)(model, x, y)
    with layers.mean_weights():
        logits = np.asarray(model(x))
    assert np.mean((logits > 0.0) == y) > 0.85
    np.testing.assert_allclose(
        np.mean(logits > 0.0, axis=0), y.mean(axis=0), atol=0.15
    )
    with pytest.raises(ValueError, match="must be 0 or 1, one for each of 3"):
        initializers.IBLM(verbose=False)(model, x, 2 * y)


def test_a_layer_for_every_time_step_sees_all_of_them(rng):
    x = rng.normal(size=(60, 4, 3)).astype("float32")
    x[:, 0] = 0.0  # padding
    y = x.sum(axis=(1, 2))
    inputs = keras.Input((4, 3))
    each = layers.DenseReparameterization(5, name="each")
    flat = keras.layers.Flatten()(keras.layers.TimeDistributed(each)(inputs))
    model = keras.Model(inputs, layers.DenseReparameterization(1)(flat))
    initializers.IBLM(seed=0, verbose=False)(model, x, y)
    assert np.abs(each.kernel.numpy()).min() > 0.01
    assert np.abs(each.bias.numpy()).max() < np.abs(each.kernel.numpy()).max()
