import functools

import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tfp_refine.layers import ConcreteDropout
from tfp_refine.layers import MCDropout


def chain(*layers, size=6):
    return keras.Sequential([keras.Input((size,)), *layers])


@pytest.mark.parametrize(
    "layer",
    [
        MCDropout(0.3, seed=1),
        ConcreteDropout(
            keras.layers.Dense(5), num_train_examples=10, temperature=0.01
        ),
    ],
    ids=["mc", "concrete"],
)
def test_predictions_differ_by_what_is_dropped(layer, rng):
    model = chain(layer)
    x = rng.normal(size=(4, 6)).astype(np.float32)
    draws = tfr.predict(model, x, 1000, seed=1)
    mean = tfr.predict(model, x, 1, sample=False)[0]
    assert np.min(draws.std(axis=0)) > 1e-3
    # Six standard errors of each of at most 24 means.
    errors = draws.std(axis=0) / np.sqrt(1000.0)
    assert np.max(np.abs(draws.mean(axis=0) - mean) / errors) < 6.0
    np.testing.assert_array_equal(tfr.predict(model, x, 2, seed=1), draws[:2])


def test_dropout_drops_at_its_rate(rng):
    model = chain(MCDropout(0.3, seed=1), size=1000)
    x = np.ones((10, 1000), np.float32)
    outputs = model(x, training=False).numpy()
    np.testing.assert_allclose(np.unique(outputs), [0.0, 1.0 / 0.7], rtol=1e-6)
    # Six standard errors of 10000 draws.
    assert abs(np.mean(outputs == 0.0) - 0.3) < 6 * np.sqrt(0.21 / 10000)


def concrete(layer=None, **options):
    layer = layer or keras.layers.Dense(3)
    return ConcreteDropout(layer, **({"num_train_examples": 20} | options))


@pytest.mark.parametrize("use_bias", [True, False])
def test_the_divergence_is_the_papers(rng, use_bias):
    layer = concrete(
        keras.layers.Dense(3, use_bias=use_bias, bias_initializer="ones"),
        initial_rate=0.2,
        prior_scale=0.7,
        kl_scale=0.5,
    )
    model = chain(layer)
    kernel = layer.layer.kernel.numpy()
    entropy = -0.2 * np.log(0.2) - 0.8 * np.log(0.8)
    expected = np.sum(kernel**2) / (2.0 * 0.8 * 0.49) - 6 * entropy
    expected += 3.0 * use_bias / (2.0 * 0.49)
    np.testing.assert_allclose(layer.kl(), expected, rtol=1e-5)
    model(np.zeros((1, 6)))
    np.testing.assert_allclose(model.losses, [0.5 * expected / 20.0], rtol=1e-5)
    layer.num_train_examples = 40
    model(np.zeros((1, 6)))
    np.testing.assert_allclose(model.losses, [0.5 * expected / 40.0], rtol=1e-5)


def test_cold_masks_drop_at_the_rate():
    layer = concrete(
        keras.layers.Dense(1000, use_bias=False, kernel_initializer="identity"),
        initial_rate=0.3,
        temperature=1e-3,
        seed=2,
    )
    outputs = chain(layer, size=1000)(np.ones((10, 1000))).numpy()
    assert abs(np.mean(outputs < 0.5) - 0.3) < 6 * np.sqrt(0.21 / 10000)
    np.testing.assert_allclose(
        np.quantile(outputs, [0.9, 0.99]), 1.0 / 0.7, rtol=1e-3
    )


@pytest.mark.parametrize(
    "make", [keras.layers.Conv1D, keras.layers.Conv2D], ids=["1D", "2D"]
)
def test_convolutions_lose_whole_channels(make):
    layer = concrete(make(8, 1, use_bias=False), initial_rate=0.4)
    space = (5,) * layer.layer.rank
    model = keras.Sequential([keras.Input((*space, 8)), layer])
    layer.layer.kernel.assign(np.eye(8).reshape(layer.layer.kernel.shape))
    outputs = model(np.ones((3, *space, 8))).numpy().reshape(3, -1, 8)
    np.testing.assert_allclose(np.ptp(outputs, axis=1), 0.0, atol=1e-6)
    assert np.min(np.std(outputs, axis=2)) > 0.1
    assert np.max(np.std(outputs, axis=0)) > 0.1  # others in each example
    # The rate is one of as many inputs as there are channels.
    entropy = -0.4 * np.log(0.4) - 0.6 * np.log(0.6)
    expected = 8.0 / (2.0 * 0.6) - 8.0 * entropy
    np.testing.assert_allclose(layer.kl(), expected, rtol=1e-5)


def concrete_ones(**options):
    """Returns a layer that sums the rest of its inputs."""
    dtype = options.get("dtype")
    dense = keras.layers.Dense(1, kernel_initializer="ones", dtype=dtype)
    return concrete(dense, initial_rate=0.5, **options)


@pytest.mark.parametrize(
    "make", [functools.partial(MCDropout, 0.5), concrete_ones]
)
def test_a_seed_fixes_what_is_dropped(make):
    x = np.ones((20, 6), np.float32)
    first, again, other = (chain(make(seed=seed))(x) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (MCDropout, {"rate": 0.3, "noise_shape": (None, 1), "seed": 4}),
        (
            concrete,
            {
                "initial_rate": 0.2,
                "prior_scale": 0.7,
                "temperature": 0.3,
                "num_train_examples": 30,
                "kl_scale": 0.5,
                "seed": 3,
            },
        ),
    ],
)
def test_configurations_hold_all_options(make, options):
    config = make(**options).get_config()
    assert {name: config[name] for name in options} == options


def test_what_is_dropped_may_be_shared():
    outputs = chain(MCDropout(0.5, noise_shape=(None, 1)))(np.ones((40, 6)))
    np.testing.assert_array_equal(np.ptp(outputs, axis=1), 0.0)
    assert np.std(outputs) > 0.1


def test_a_rate_of_zero_drops_nothing():
    x = np.ones((40, 6), np.float32)
    np.testing.assert_array_equal(chain(MCDropout(0.0))(x), x)


@pytest.mark.parametrize(
    "make", [functools.partial(MCDropout, 0.5), concrete_ones]
)
def test_mixed_precision_computes_in_half(make):
    layer = make(dtype="mixed_float16")
    outputs = layer(np.ones((40, 6), np.float16)).numpy()
    assert outputs.dtype == np.float16
    assert np.all(np.isfinite(outputs))


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "falls"), [(0.01, True), (30.0, False)])
def test_the_rate_follows_the_data(rng, noise, falls):
    # A prior of the size of the weights, and data that are worth much or not.
    x = rng.normal(size=(50, 6)).astype(np.float32)
    y = x @ rng.normal(size=(6, 1)) + noise * rng.normal(size=(50, 1))
    layer = concrete(
        keras.layers.Dense(1), initial_rate=0.2, num_train_examples=50
    )
    model = chain(layer)
    model.compile(keras.optimizers.Adam(0.02), tfr.losses.GaussianNLL(noise))
    model.fit(x, y, batch_size=50, epochs=150, verbose=0)
    assert float(layer.rate) < 0.1 if falls else float(layer.rate) > 0.3


def test_saved_models_keep_the_rate(rng, tmp_path):
    layer = concrete(initial_rate=0.25, seed=3)
    model = chain(MCDropout(0.5, seed=4), layer)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x = rng.normal(size=(4, 6)).astype(np.float32)
    np.testing.assert_array_equal(
        tfr.predict(loaded, x, 5, seed=1), tfr.predict(model, x, 5, seed=1)
    )
    assert loaded.layers[1].get_config() == layer.get_config() | {
        "layer": loaded.layers[1].get_config()["layer"]
    }
    np.testing.assert_allclose(loaded.layers[1].rate, 0.25, rtol=1e-6)


def test_the_number_of_examples_can_be_given_to_a_model():
    model = chain(concrete(num_train_examples=None))
    model(np.zeros((1, 6)))
    with pytest.raises(ValueError, match="does not know the number"):
        _ = model.losses
    tfr.layers.set_num_train_examples(model, 10)
    tfr.layers.set_kl_scale(model, 0.0)
    model(np.zeros((1, 6)))
    assert float(model.losses[0]) == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial_rate": 0.0}, "initial_rate"),
        ({"initial_rate": 1.0}, "initial_rate"),
        ({"prior_scale": -1.0}, "prior_scale"),
        ({"temperature": 0.0}, "temperature"),
        ({"kl_scale": -1.0}, "kl_scale"),
        ({"num_train_examples": 0}, "num_train_examples"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        concrete(**options)


@pytest.mark.parametrize("rate", [1.0, -0.1])
def test_bad_rates_are_refused(rate):
    with pytest.raises(ValueError, match="`rate` must be"):
        MCDropout(rate)


def test_layers_without_a_kernel_are_refused():
    with pytest.raises(ValueError, match="with a kernel. Received: a ReLU"):
        chain(concrete(keras.layers.ReLU()))


def test_convolutions_with_their_channels_first_are_refused():
    convolution = keras.layers.Conv2D(3, 2, data_format="channels_first")
    layer = concrete(convolution)
    with pytest.raises(ValueError, match="must have its channels last"):
        layer.build((None, 2, 5, 5))


def freeze_rate(layer):
    layer._logit.trainable = False


def freeze_all(layer):
    layer.trainable = False


@pytest.mark.slow
@pytest.mark.parametrize("freeze", [lambda _: None, freeze_rate, freeze_all])
def test_a_layer_that_is_called_twice_pays_once_for_its_weights(freeze):
    layer = concrete()
    inputs = keras.Input((3,))
    model = keras.Model(inputs, layer(layer(inputs)))
    freeze(layer)
    model(np.ones((2, 3), np.float32))
    expected = float(layer.kl()) / 20
    np.testing.assert_allclose(model.losses, [expected], rtol=1e-5)
    model.compile("sgd", loss=lambda y, outputs: 0.0 * outputs)
    loss = model.evaluate(np.ones((2, 3)), np.ones((2, 3)), verbose=0)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert np.all(np.isfinite(model.predict(np.ones((2, 3)), verbose=0)))


def test_weights_decay_at_a_frozen_rate():
    layer = concrete(initial_rate=0.2)
    model = chain(layer)
    freeze_rate(layer)
    kernel = layer.layer.kernel.numpy()
    model.compile(
        keras.optimizers.SGD(1.0), loss=lambda y, outputs: 0.0 * outputs
    )
    model.fit(np.ones((2, 6)), np.ones((2, 3)), verbose=0)
    expected = kernel * (1.0 - 1.0 / (0.8 * 20.0))
    np.testing.assert_allclose(layer.layer.kernel, expected, rtol=1e-5)


@pytest.mark.parametrize("freeze", [lambda _: None, freeze_rate, freeze_all])
def test_the_divergence_of_a_half_precision_layer_is_not(freeze):
    dense = keras.layers.Dense(
        3, kernel_initializer="ones", dtype="mixed_float16"
    )
    # 90000 is more than float16 holds.
    layer = concrete(dense, prior_scale=0.01, dtype="mixed_float16")
    model = chain(layer)
    freeze(layer)
    model.compile("sgd", loss=lambda y, outputs: 0.0 * outputs)
    loss = model.evaluate(np.ones((2, 6)), np.ones((2, 3)), verbose=0)
    expected = (0.5 * 18.0 / 0.9 / 0.01**2 - 6 * _entropy(0.1)) / 20
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def _entropy(rate):
    return -rate * np.log(rate) - (1.0 - rate) * np.log(1.0 - rate)
