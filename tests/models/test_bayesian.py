"""Models that become Bayesian, and back."""

import warnings

import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tests.support import conversion
from tfp_refine.refinement import objective

ESTIMATORS = ("flipout", "local_reparameterization", "reparameterization")


def images(size=5):
    rng = np.random.default_rng(0)
    return rng.normal(size=(size, 8, 8, 2)).astype("float32")


def convolutional():
    """A model with shared, nested, branching and unusual layers."""
    inputs = keras.Input((8, 8, 2))
    x = keras.layers.Conv2D(
        4, 3, padding="same", activation="relu", kernel_regularizer="l2",
        bias_initializer="ones", name="first",
    )(inputs)  # fmt: skip
    x = keras.layers.BatchNormalization(name="norm")(x)
    shared = keras.layers.Conv2D(4, 3, padding="same", name="shared")
    x = keras.layers.Add()([shared(x), shared(shared(x))])
    x = keras.layers.DepthwiseConv2D(3, name="depthwise")(x)
    x = keras.layers.Conv2DTranspose(3, 3, strides=2, name="transposed")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    inner = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(5, "tanh", name="inside")],
        name="inner",
    )
    outputs = keras.layers.Dense(3, use_bias=False, name="outputs")(inner(x))
    return keras.Model(inputs, outputs)


def sequences(kind, **options):
    (rank,) = [int(a) for a in kind.__name__ if a.isdigit()]
    shape = (6,) * rank
    sizes = (3,) if "Depthwise" in kind.__name__ else (3, 3)
    return keras.Sequential(
        [
            keras.Input((*shape, 2)),
            kind(*sizes, name="convolution", **options),
            keras.layers.Flatten(),
            keras.layers.Dense(2),
        ]
    ), np.random.default_rng(1).normal(size=(4, *shape, 2)).astype("float32")


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_at_the_means_outputs_are_those_of_the_model(estimator):
    model, x = convolutional(), images()
    converted = conversion.convert(model, estimator=estimator)
    conversion.assert_equal_at_means(converted, model, x)
    assert np.std(tfr.predict(converted, x, 20, seed=1), axis=0).min() > 0.0
    suffix = estimator.replace("_", " ").title().replace(" ", "")
    for layer, expected in (
        ("first", f"Conv2D{suffix}"),
        ("depthwise", f"DepthwiseConv2D{suffix}"),
        ("transposed", "Conv2DTransposeFlipout"),
    ):
        assert type(converted.get_layer(layer)).__name__ == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        keras.layers.Conv1D,
        keras.layers.Conv2D,
        keras.layers.Conv3D,
        keras.layers.Conv1DTranspose,
        keras.layers.Conv3DTranspose,
        keras.layers.DepthwiseConv1D,
    ],
    ids=lambda kind: kind.__name__,
)
@pytest.mark.parametrize(
    "options",
    [{"strides": 2}, {"dilation_rate": 2, "padding": "same"}],
    ids=str,
)
def test_convolutions_of_all_ranks_are_converted_and_back(kind, options):
    model, x = sequences(kind, **options)
    converted = conversion.convert(model)
    conversion.assert_equal_at_means(converted, model, x)
    back = tfr.models.to_deterministic(converted)
    np.testing.assert_array_equal(back(x), model(x))


def test_an_estimator_that_a_kind_does_not_have_is_its_first():
    model, _ = sequences(keras.layers.Conv1DTranspose)
    converted = conversion.convert(model, estimator="local_reparameterization")
    found = [type(layer) for layer in converted.layers if layer.weights]
    assert found == [
        tfr.layers.Conv1DTransposeFlipout,
        tfr.layers.DenseLocalReparameterization,
    ]


def test_point_estimates_are_copied_too():
    inputs = keras.Input((3,))
    outputs = tfr.layers.DenseFlipout(
        2, bias_posterior=None, bias_regularizer=None, num_train_examples=5,
        bias_initializer="ones",
    )(inputs)  # fmt: skip
    model = keras.Model(inputs, outputs)
    x = np.ones((2, 3), np.float32)
    back = tfr.models.to_deterministic(model)
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(back(x), model(x))


def test_back_and_forth_every_layer_is_of_its_kind_again():
    model, x = convolutional(), images()
    back = tfr.models.to_deterministic(conversion.convert(model))
    np.testing.assert_array_equal(back(x), model(x))
    kinds = [
        [(type(layer), layer.name) for layer in m._flatten_layers()][1:]
        for m in (back, model)
    ]
    named = [
        [(k, n) for k, n in of if k is not keras.layers.InputLayer]
        for of in kinds
    ]
    assert named[0] == named[1]


def test_a_draw_is_a_deterministic_model_of_its_own():
    model, x = convolutional(), images()
    converted = conversion.convert(
        model, initializer=tfr.initializers.MOPED(0.5)
    )
    first, again, other = (
        tfr.models.to_deterministic(converted, seed=seed)(x)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(np.array(first) - np.array(other)).max() > 1e-4
    assert np.abs(np.array(first) - np.array(model(x))).max() > 1e-4


@pytest.mark.slow
def test_draws_have_the_moments_of_the_posterior():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    model.layers[0].kernel.assign(np.arange(1.0, 7.0).reshape(2, 3))
    converted = conversion.convert(
        model, initializer=tfr.initializers.MOPED(0.3)
    )
    draws = np.array(
        [
            tfr.models.to_deterministic(converted, seed=s).layers[-1].kernel
            for s in range(400)
        ]
    )
    expected = np.array(model.layers[0].kernel)
    # Six means of 400 draws: beyond 5 standard errors once in 3e5 runs.
    z = (draws.mean(axis=0) - expected) / (0.3 * expected / np.sqrt(400))
    assert np.abs(z).max() < 5.0
    ratio = draws.std(axis=0) / (0.3 * expected)
    assert np.abs(ratio - 1.0).max() < 5.0 / np.sqrt(800)


def test_moped_makes_scales_a_part_of_the_means():
    converted = conversion.convert(
        convolutional(), initializer=tfr.initializers.MOPED(0.2, 1e-3)
    )
    for weight in converted.get_layer("first").variational_weights:
        np.testing.assert_allclose(
            weight.scale,
            np.maximum(0.2 * np.abs(np.array(weight.loc)), 1e-3),
            rtol=1e-4,
        )


def test_without_an_initializer_scales_are_those_of_the_posterior():
    posterior = tfr.layers.MeanFieldPosterior(0.03)
    converted = conversion.convert(
        convolutional(), initializer=None, posterior=posterior
    )
    for weight in converted.get_layer("outputs").variational_weights:
        np.testing.assert_allclose(weight.scale, 0.03, rtol=1e-5)


@pytest.mark.slow
def test_initializers_may_look_at_data():
    x = images(40)
    y = np.arange(40) % 3
    model = convolutional()
    converted = conversion.convert(model, initializer="lsuv", data=(x, y))
    with tfr.layers.mean_weights():
        assert np.abs(converted(x) - np.array(model(x))).max() > 1e-3
    with pytest.raises(ValueError, match="IBLM needs training data"):
        conversion.convert(model, initializer="iblm")


def test_the_bound_counts_each_layer_once():
    model = convolutional()
    prior = tfr.regularizers.GaussianKL(0.5)
    converted = conversion.convert(model, regularizer=prior)
    converted(images())
    expected = sum(
        float(weight.kl())
        for layer in converted._flatten_layers()
        for weight in getattr(layer, "variational_weights", ())
    )
    assert expected > 0.0
    np.testing.assert_allclose(
        sum(map(float, converted.losses)),
        expected / conversion.NUM_EXAMPLES,
        rtol=1e-5,
    )


def test_a_predicate_chooses_layers():
    converted = conversion.convert(
        convolutional(), layers=lambda layer: layer.name == "outputs"
    )
    random = [
        layer.name
        for layer in converted._flatten_layers()
        if getattr(layer, "variational_weights", ())
    ]
    assert random == ["outputs"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("outputs", ["outputs"]),
        (["inside", "first"], ["first", "inside"]),
        ("inner/inside", ["inside"]),
        (keras.layers.Conv2D, ["first", "shared"]),
        ([keras.layers.Conv2D, "outputs"], ["first", "shared", "outputs"]),
    ],
    ids=str,
)
def test_names_and_classes_choose_layers(layers, expected):
    converted = conversion.convert(convolutional(), layers=layers)
    assert bayesian_names(converted) == expected


def bayesian_names(model):
    return [
        layer.name
        for layer in model._flatten_layers()
        if getattr(layer, "variational_weights", ())
    ]


def test_frozen_layers_are_copied_unless_they_are_chosen():
    model = convolutional()
    frozen = ["first", "inner", "depthwise"]
    for name in frozen:
        model.get_layer(name).trainable = False
    converted = conversion.convert(model)
    assert bayesian_names(converted) == ["shared", "transposed", "outputs"]
    conversion.assert_equal_at_means(converted, model, images())
    for name in frozen:
        copied = converted.get_layer(name)
        assert type(copied) is type(model.get_layer(name))
        assert copied is not model.get_layer(name)
        assert copied.trainable_weights == []
    chosen = conversion.convert(model, layers=lambda layer: True)
    assert "first" in bayesian_names(chosen)
    # The rest can be refined.
    tfr.layers.set_num_train_examples(converted, 5)
    objective.RefinementObjective(
        converted, images(), np.ones((5, 3)), tfr.losses.GaussianNLL(), False
    )


def test_a_model_that_is_frozen_as_a_whole_says_so():
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(3, name="first")], name="whole"
    )
    model.trainable = False
    with pytest.raises(ValueError, match="'whole'.* frozen: .*`layers`: first"):
        conversion.convert(model)


def test_what_has_no_variational_twin_is_kept_and_named():
    class Own(keras.layers.Dense):
        pass

    inputs = keras.Input((6, 4))
    x = keras.layers.SimpleRNN(3, return_sequences=True, name="simple")(inputs)
    x = keras.layers.LayerNormalization(name="norm")(x)
    x = keras.layers.Lambda(lambda v: 2.0 * v, name="double")(x)
    x = Own(3, name="own")(keras.layers.Flatten()(x))
    model = keras.Model(inputs, keras.layers.Dense(2, name="outputs")(x))
    with pytest.warns(UserWarning, match=r"kind: simple, double, own\."):
        converted = conversion.convert(model)
    x = np.random.default_rng(0).normal(size=(3, 6, 4)).astype("float32")
    conversion.assert_equal_at_means(converted, model, x)


@pytest.mark.parametrize("change", ["enable_lora", "quantize"])
def test_layers_with_more_weights_than_usual_are_kept_and_named(change, rng):
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(4), keras.layers.Dense(2)]
    )
    layer = model.layers[0]
    getattr(layer, change)({"enable_lora": 2, "quantize": "int8"}[change])
    x = rng.normal(size=(3, 6)).astype("float32")
    message = rf"kind: {layer.name}\. Kernels that are quantized, or .*LoRA"
    with pytest.warns(UserWarning, match=message):
        converted = conversion.convert(model)
    conversion.assert_equal_at_means(converted, model, x)
    with pytest.raises(ValueError, match="no layer .*quantized, or .*LoRA"):
        conversion.convert(keras.Sequential([keras.Input((6,)), layer]))


def test_where_keras_adds_biases_elsewhere_it_is_told(rng):
    inputs = keras.Input((2, 6))  # channels, positions
    outputs = keras.layers.Conv1D(
        4, 3, data_format="channels_first", bias_initializer="ones", name="odd"
    )(inputs)  # as many channels as positions
    outputs = keras.layers.Conv1D(
        3, 2, data_format="channels_first", bias_initializer="ones", name="even"
    )(outputs)
    outputs = keras.layers.Conv1D(
        3, 1, data_format="channels_first", use_bias=False
    )(outputs)
    model = keras.Model(inputs, outputs)
    for layer in model.layers[1:3]:
        layer.bias.assign(rng.normal(size=layer.bias.shape))
    message = "differ in these layers, or .*: odd, even"
    with pytest.warns(UserWarning, match=message):
        converted = conversion.convert(model)
    with pytest.warns(UserWarning, match=message):
        tfr.models.to_deterministic(converted)
    x = rng.normal(size=(3, 2, 6)).astype("float32")
    with tfr.layers.mean_weights():
        ours = np.array(converted.get_layer("odd")(x))
    theirs = model.get_layer("odd")
    expected = np.array(theirs(x)) - np.array(theirs.bias)  # as Keras does
    expected = expected + np.array(theirs.bias)[:, np.newaxis]
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


def test_nothing_is_warned_of_for_usual_models():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        conversion.convert(convolutional())


@pytest.mark.slow
def test_the_model_is_left_as_it_was():
    model, x = convolutional(), images()
    before, weights = model(x), model.get_weights()
    converted = conversion.convert(model)
    converted.compile("adam", "mse", run_eagerly=True)
    converted.fit(x, np.ones((5, 3)), epochs=2, verbose=0)
    np.testing.assert_array_equal(model(x), before)
    for old, new in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_files_and_mixed_precision(tmp_path):
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4, "relu", dtype="mixed_float16")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, dtype="float32")(hidden))
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    converted = conversion.convert(model)
    conversion.assert_equal_at_means(converted, model, x)
    converted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    conversion.assert_equal_at_means(loaded, model, x)


@pytest.mark.slow
def test_seeds_differ_by_layer_and_fix_the_noise():
    model, x = convolutional(), images()
    draws = [
        tfr.predict(conversion.convert(model, seed=seed), x, 3, seed=7)
        for seed in (1, 1)
    ]
    np.testing.assert_array_equal(*draws)
    seeds = [
        layer.seed
        for layer in conversion.convert(model)._flatten_layers()
        if getattr(layer, "variational_weights", ())
    ]
    assert len(set(seeds)) == len(seeds) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_train_examples": 0}, "num_train_examples"),
        ({"estimator": "magic"}, "estimator"),
        ({"layers": "all"}, "chooses no layer by all.*first, shared,.*inside"),
        ({"layers": ["first", "last"]}, r"no layer by last\."),
        ({"layers": keras.layers.LSTM}, "no layer by LSTM"),
        ({"layers": 3}, "`layers` must be a class.*layers=3"),
        ({"layers": ["first", dict]}, "`layers` must be a class"),
        ({"layers": lambda layer: False}, "no layer that can get posteriors"),
        ({"initializer": "magic"}, "must be one of"),
        ({"initializer": 3}, "must be one of"),
        ({"initializer": ""}, "must be one of"),
        ({"data": (1, 2, 3, 4)}, "`data` must be .*: a tuple of 4"),
        ({"regularizer": "magic"}, "regularizer must be one of"),
        ({"regularizer": "l2"}, "must be a KL regularizer"),
        ({"posterior": "magic"}, "posterior"),
        ({"seed": -1}, "seed"),
    ],
    ids=lambda value: repr(value).split(" at ")[0],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        conversion.convert(convolutional(), **options)


def test_models_that_cannot_be_converted():
    with pytest.raises(ValueError, match="must be a keras.Model. .*: Dense"):
        conversion.convert(keras.layers.Dense(2))
    with pytest.raises(ValueError, match="'mine' is not built"):
        conversion.convert(keras.Sequential(name="mine"))
    with pytest.raises(ValueError, match="must be a keras.Model. .*: int"):
        tfr.models.to_deterministic(3)
    with pytest.raises(ValueError, match="no layer with posteriors"):
        tfr.models.to_deterministic(convolutional())
    with pytest.raises(ValueError, match="stands for no layer of Keras"):
        tfr.models.to_deterministic(
            tfr.models.MLP((2,), layer=tfr.layers.DenseMNF)
        )
