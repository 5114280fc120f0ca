"""Models with dropout that also acts in predictions."""

import keras
import numpy as np
import pytest

import tfp_refine as tfr

NUM_EXAMPLES = 50


def sequential():
    # Biases that are 0 would cost nothing, whatever the penalty.
    bias = {"bias_initializer": keras.initializers.RandomNormal(stddev=1.0)}
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, name="conv", **bias),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Flatten(name="flatten"),
            keras.layers.Dense(
                6,
                activation="relu",
                kernel_regularizer="l1",
                bias_regularizer="l1",
                name="hidden",
                **bias,
            ),
            keras.layers.Dense(3, name="outputs", **bias),
        ]
    )


def convert(model, **options):
    return tfr.models.to_mc_dropout(
        model, **({"num_train_examples": NUM_EXAMPLES, "seed": 1} | options)
    )


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(5, 8, 8, 1)).astype("float32")


@pytest.mark.parametrize("learn_rate", [False, True])
def test_at_mean_weights_outputs_are_those_of_the_model(x, learn_rate):
    model = sequential()
    converted = convert(model, learn_rate=learn_rate)
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(converted(x), model(x))
    assert np.std(tfr.predict(converted, x, 20, seed=1), axis=0).min() > 0.0


def test_dropout_is_behind_each_weighted_layer_but_the_last():
    converted = convert(sequential(), rate=0.2)
    order = [layer.name for layer in converted.layers]
    dropped = [name for name in order if name.endswith("_dropout")]
    assert dropped == ["conv_dropout", "hidden_dropout"]
    assert order.index("conv_dropout") == order.index("conv") + 1
    assert {converted.get_layer(name).rate for name in dropped} == {0.2}


def test_the_penalty_is_that_of_the_bound_over_the_number_of_examples(x):
    model = sequential()
    rate, scale = 0.2, 0.5
    converted = convert(model, rate=rate, prior_scale=scale)
    converted(x)
    expected = 0.0
    for name, keep in (("conv", 1.0), ("hidden", 0.8), ("outputs", 0.8)):
        layer = model.get_layer(name)
        expected += np.sum(np.square(layer.kernel)) / keep
        expected += np.sum(np.square(layer.bias))
    expected *= 0.5 / (NUM_EXAMPLES * scale**2)
    np.testing.assert_allclose(sum(converted.losses), expected, rtol=1e-5)


def test_prior_scales_by_name_are_those_of_each_layer(x):
    model = sequential()
    converted = convert(model, rate=0.5, prior_scale="fan_in")
    converted(x)
    expected = 0.0
    for name, fan_in, keep in (
        ("conv", 9, 1.0), ("hidden", 144, 0.5), ("outputs", 6, 0.5)
    ):  # fmt: skip
        layer = model.get_layer(name)
        squares = np.sum(np.square(layer.kernel)) / keep
        squares += np.sum(np.square(layer.bias))
        expected += 0.5 * fan_in / NUM_EXAMPLES * squares
    np.testing.assert_allclose(sum(converted.losses), expected, rtol=1e-5)


def test_learned_rates_replace_other_penalties(x):
    converted = convert(sequential(), rate=0.3, learn_rate=True)
    converted(x)
    wrapped = [
        layer
        for layer in converted.layers
        if isinstance(layer, tfr.layers.ConcreteDropout)
    ]
    assert [layer.name for layer in wrapped] == ["conv", "hidden", "outputs"]
    for layer in wrapped:
        np.testing.assert_allclose(layer.rate, 0.3, rtol=1e-5)
    expected = sum(float(layer.kl()) for layer in wrapped) / NUM_EXAMPLES
    np.testing.assert_allclose(sum(converted.losses), expected, rtol=1e-5)


@pytest.mark.parametrize("prior_scale", [0.5, "fan_in", "he"])
def test_learned_rates_have_the_prior_of_their_layer(x, prior_scale):
    converted = convert(
        sequential(), rate=0.3, learn_rate=True, prior_scale=prior_scale
    )
    for name, fan_in in (("conv", 9), ("hidden", 144), ("outputs", 6)):
        scales = {"fan_in": fan_in**-0.5, "he": (2.0 / fan_in) ** 0.5}
        np.testing.assert_allclose(
            converted.get_layer(name).prior_scale,
            scales.get(prior_scale, prior_scale),
            rtol=1e-6,
        )


def test_residual_and_shared_layers_are_converted(x):
    inputs = keras.Input((8, 8, 1))
    shared = keras.layers.Conv2D(1, 3, padding="same", name="shared")
    y = keras.layers.Add()([inputs, shared(shared(inputs))])
    outputs = keras.layers.Dense(2)(keras.layers.Flatten()(y))
    model = keras.Model(inputs, outputs)
    converted = convert(model)
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(converted(x), model(x))
    assert len(converted.get_layer("shared_dropout")._inbound_nodes) == 2
    resnet = tfr.models.ResNet(
        (8, 8, 1), 3, depth=8, variational="none", batch_norm=True
    )
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(convert(resnet)(x), resnet(x))


@pytest.mark.slow
def test_equal_seeds_draw_equal_noise(x):
    first, second = convert(sequential()), convert(sequential())
    second.set_weights(first.get_weights())
    np.testing.assert_array_equal(
        tfr.predict(first, x, 3, seed=2), tfr.predict(second, x, 3, seed=2)
    )


def test_by_default_half_is_dropped_and_the_prior_is_standard(x):
    model = sequential()
    found, expected = (
        tfr.models.to_mc_dropout(model, num_train_examples=7, **options)
        for options in ({}, {"rate": 0.5, "prior_scale": 1.0})
    )
    assert found.get_layer("hidden_dropout").rate == 0.5
    for converted in (found, expected):
        converted(x)
    np.testing.assert_allclose(
        sum(found.losses), sum(expected.losses), rtol=1e-6
    )


def test_it_has_the_name_of_the_model_even_if_that_is_sequential():
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dense(1)],
        name="mine",
    )
    assert convert(model).name == "mine"


def test_a_file_of_it_loads(x, tmp_path):
    for learn_rate in (False, True):
        converted = convert(sequential(), learn_rate=learn_rate)
        converted.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        with tfr.layers.mean_weights():
            np.testing.assert_array_equal(loaded(x), converted(x))


@pytest.mark.slow
def test_training_with_learned_rates_lowers_the_loss(x):
    converted = convert(sequential(), learn_rate=True)
    converted.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    losses = converted.fit(
        x, np.arange(5) % 3, epochs=100, verbose=0
    ).history["loss"]  # fmt: skip
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.1


def test_depthwise_kernels_decay_under_their_own_name(x):
    inputs = keras.Input((8, 8, 1))
    y = keras.layers.DepthwiseConv2D(3, depth_multiplier=2)(inputs)
    outputs = keras.layers.Dense(2)(keras.layers.Flatten()(y))
    model = keras.Model(inputs, outputs)
    for learn_rate in (False, True):
        converted = convert(model, learn_rate=learn_rate)
        assert sum(map(float, converted.losses)) != 0.0
        with tfr.layers.mean_weights():
            np.testing.assert_array_equal(converted(x), model(x))


def test_layers_that_cannot_drop_are_named():
    inputs = keras.Input((4, 3))
    y = keras.layers.LSTM(3, name="memory")(inputs)
    y = keras.layers.LayerNormalization()(keras.layers.Dense(3)(y))
    model = keras.Model(inputs, keras.layers.Dense(2)(y))
    with pytest.warns(UserWarning, match=r"left without dropout: memory\."):
        convert(model)


def test_kernels_of_transposed_convolutions_have_their_own_fan_in():
    model = keras.Sequential(
        [
            keras.Input((4, 4, 3)),
            keras.layers.Conv2DTranspose(32, 3, name="first"),
            keras.layers.DepthwiseConv2D(3, depth_multiplier=2, name="second"),
            keras.layers.Flatten(),
            keras.layers.Dense(1),
        ]
    )
    converted = convert(
        model, rate=0.5, prior_scale="fan_in", num_train_examples=1
    )
    found = converted.get_layer("first").kernel_regularizer.l2
    np.testing.assert_allclose(found, 0.5 * 3 * 3 * 3, rtol=1e-6)
    found = converted.get_layer("second").depthwise_regularizer.l2
    np.testing.assert_allclose(found, 0.5 * 3 * 3 / 0.5, rtol=1e-6)


def test_each_layer_at_the_inputs_sees_all_of_them():
    first, second = keras.Input((2,)), keras.Input((3,))
    a = keras.layers.Dense(4, name="a")(first)
    b = keras.layers.Dense(4, name="b")(keras.layers.Activation("tanh")(second))
    c = keras.layers.Dense(1, name="c")(keras.layers.Add()([a, b]))
    converted = convert(
        keras.Model([first, second], c), rate=0.2, num_train_examples=1
    )
    decay = {
        name: converted.get_layer(name).kernel_regularizer.l2
        for name in ("a", "b", "c")
    }
    assert decay == pytest.approx({"a": 0.5, "b": 0.5, "c": 0.625})


class Subclassed(keras.Model):
    def call(self, inputs):
        return inputs


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Subclassed, "functional or Sequential"),
        (lambda: None, "functional or Sequential"),
        (
            lambda: keras.Sequential(
                [keras.Input((2,)), keras.layers.Dense(1)]
            ),
            "two layers with a kernel or more",
        ),
        (lambda: tfr.models.MLP((2,)), "has layers with posteriors already"),
        (
            lambda: keras.Sequential(
                [
                    keras.Input((2,)),
                    keras.Sequential([keras.layers.Dense(2)], name="inner"),
                    keras.layers.Dense(2),
                ]
            ),
            "must not have models inside.*inner",
        ),
        (
            lambda: keras.Sequential(
                [keras.layers.Dense(2), keras.layers.Dense(1)]
            ),
            "built",
        ),
    ],
    ids=[
        "subclassed", "none", "one_layer", "variational", "nested", "not_built"
    ],
)  # fmt: skip
def test_models_that_cannot_be_converted(model, message):
    with pytest.raises(ValueError, match=message):
        convert(model())


@pytest.mark.parametrize(
    "options",
    [
        {"rate": 0.0}, {"rate": 1.0}, {"num_train_examples": 0},
        {"prior_scale": -1.0}, {"prior_scale": "wide"}, {"seed": "a"},
    ],
    ids=str,
)  # fmt: skip
def test_bad_arguments(options):
    with pytest.raises(ValueError, match="must"):
        convert(sequential(), **options)


@pytest.mark.parametrize(
    ("learn_rate", "kind", "count"),
    [(False, tfr.layers.MCDropout, 4), (True, tfr.layers.ConcreteDropout, 6)],
)
def test_each_layer_and_each_seed_has_its_own_noise(learn_rate, kind, count):
    seeds = [
        layer.seed
        for seed in (1, 2)
        for layer in convert(
            sequential(), learn_rate=learn_rate, seed=seed
        ).layers
        if isinstance(layer, kind)
    ]
    assert len(set(seeds)) == len(seeds) == count
