import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import tfp_refine as tfr
from tests.support import conv_layers
from tests.support import layer_case
from tests.support import statistics
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import regularizers

every_kind = pytest.mark.parametrize("kind", conv_layers.SEPARABLE)
PARTS = ("depthwise", "pointwise", "bias")
OPTIONS = {
    "strides": 2,
    "padding": "same",
    "depth_multiplier": 2,
    "activation": "tanh",
}
FLIPOUT = layers.SeparableConv2DFlipout


def make(kind, **arguments):
    """Returns a layer with wide posteriors, not built."""
    wide = layers.MeanFieldPosterior(0.3)
    posteriors = {f"{part}_posterior": wide for part in PARTS}
    return kind(3, 2, num_train_examples=50, seed=1, **posteriors | arguments)


def images(kind, batch_size=3, size=5):
    shape = (batch_size, *(size,) * conv_layers.rank(kind), 2)
    rng = np.random.default_rng(0)
    return rng.normal(size=shape).astype("float32")


def twin_of(layer, x):
    names = layer_case.init_arguments(layer.keras_layer) | {"dtype"}
    config = {k: v for k, v in layer.get_config().items() if k in names}
    none = {f"{part}_regularizer": None for part in PARTS}
    twin = layer.keras_layer(**config | none)
    twin.build(x.shape)
    for name, weight in layer.twin_weights.items():
        getattr(twin, name).assign(weight.loc)
    return twin


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize(
    "options",
    [{}, OPTIONS, {"data_format": "channels_first", "use_bias": False}],
    ids=["default", "options", "channels_first"],
)
def test_at_the_means_it_is_the_layer_of_keras(kind, options):
    layer = make(kind, bias_initializer="random_normal", **options)
    x = images(kind)
    if "data_format" in options:
        x = np.moveaxis(x, -1, 1)
    # To the last bit, but where Keras has channels last in between.
    error = 1e-5 * ("data_format" in options)
    tolerance = {"rtol": error, "atol": error}
    random = layer(x)
    expected = twin_of(layer, x)(x)
    np.testing.assert_allclose(layer(x, sample=False), expected, **tolerance)
    with layers.mean_weights():
        np.testing.assert_allclose(layer(x), expected, **tolerance)
        assert layer_case.differ(layer(x, sample=True), expected)
    assert layer_case.differ(random, expected)
    assert layer.compute_output_shape(x.shape) == expected.shape
    assert len(layer.losses) == 3 - ("use_bias" in options)


@every_kind
def test_outputs_have_the_exact_moments(kind):
    num_draws = 20000
    layer = kind(num_draws, 2, depth_multiplier=1, seed=3, use_bias=False)
    one_channel = images(kind, 1, 2)[..., :1]
    layer.build(one_channel.shape)
    depthwise, pointwise = layer.twin_weights.values()
    rng = np.random.default_rng(1)
    loc = rng.normal(size=depthwise.loc.shape)
    depthwise.assign(loc, np.full(loc.shape, 1e-6))
    shape = pointwise.loc.shape
    pointwise.assign(np.full(shape, 0.5), np.full(shape, 0.3))
    hidden = float(np.sum(loc * np.reshape(one_channel, loc.shape)))
    outputs = np.ravel(layer(one_channel)).astype("float64")
    stddev = 0.3 * abs(hidden)
    statistics.assert_mean(outputs, 0.5 * hidden, stddev, resolves=0.1 * stddev)
    statistics.assert_variance(outputs, stddev**2, resolves_ratio=1.15)


@every_kind
def test_the_divergence_is_that_of_tfp_counted_once(kind):
    layer = make(kind, pointwise_regularizer=regularizers.GaussianKL(0.7))
    x = images(kind)
    layer(x)
    layer(x)
    expected = sum(
        tf.reduce_sum(
            tfd.kl_divergence(
                tfd.Normal(w.loc.value, w.scale),
                tfd.Normal(0.0, 0.7 if name == "pointwise_kernel" else 1.0),
            )
        )
        for name, w in layer.twin_weights.items()
    )
    np.testing.assert_allclose(
        sum(map(float, layer.losses)), expected / 50, rtol=1e-5
    )
    layers.set_num_train_examples(layer, 100)
    layers.set_kl_scale(layer, 0.25)
    np.testing.assert_allclose(
        sum(map(float, layer.losses)), expected / 400, rtol=1e-5
    )


@pytest.mark.slow
@every_kind
def test_it_survives_files_and_copies(kind, tmp_path):
    layer = make(
        kind,
        **OPTIONS,
        depthwise_regularizer=regularizers.EmpiricalBayesKL(),
        bias_posterior=None,
        bias_regularizer="l2",
        pointwise_constraint="non_neg",
        activity_regularizer="l1",
        kl_scale=0.5,
    )
    x = images(kind)
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, layer(inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1].get_config() == layer.get_config()
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for other in (loaded, clone):
        for either in (model, other):
            functional.seeds.reseed(either, 3)
        np.testing.assert_array_equal(model(x), other(x))
        np.testing.assert_array_equal(
            [float(loss) for loss in model.losses],
            [float(loss) for loss in other.losses],
        )
    assert len(model.losses) == 4


@every_kind
def test_separable_convolutions_of_keras_become_bayesian_and_back(kind):
    x = images(kind)
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            kind.keras_layer(
                3, 2, **OPTIONS, bias_initializer="random_normal", name="one"
            ),
            keras.layers.Flatten(),
            keras.layers.Dense(2),
        ]
    )
    estimator = {
        "tion": "reparameterization",
        "pout": "flipout",
    }[kind.__name__[-4:]]
    if "Local" in kind.__name__:
        estimator = "local_reparameterization"
    bayesian = tfr.models.to_bayesian(
        model, num_train_examples=10, estimator=estimator, posterior="low_rank"
    )
    made = bayesian.get_layer("one")
    assert type(made) is kind
    assert {w.family for w in made.twin_weights.values()} == {"low_rank"}
    with layers.mean_weights():
        np.testing.assert_array_equal(bayesian(x), model(x))
    back = tfr.models.to_deterministic(bayesian)
    assert type(back.get_layer("one")) is kind.keras_layer
    np.testing.assert_array_equal(back(x), model(x))


def test_the_two_kernels_draw_from_streams_of_their_own():
    layer = make(FLIPOUT)
    x = images(FLIPOUT)
    first = np.asarray(layer(x))
    seeds = [part.seed for part in (layer.depthwise, layer.pointwise)]
    assert len({*seeds, 1}) == 3
    other = make(FLIPOUT)
    other.build(x.shape)
    for name, weight in other.twin_weights.items():
        weight.loc.assign(layer.twin_weights[name].loc)
    np.testing.assert_array_equal(other(x), first)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"filters": 0}, "`filters` must be a positive integer.*=0"),
        ({"depth_multiplier": 0}, "`depth_multiplier` must be .*=0"),
        ({"padding": None}, "`padding` must be a string.*=None"),
        ({"pointwise_posterior": "magic"}, "posterior must be one of"),
        ({"depthwise_regularizer": "l2"}, "`depthwise_regularizer` must be a"),
        (
            {"pointwise_regularizer": "scale_mixture_kl"},
            "`pointwise_regularizer` .*SeparableConv2DFlipout draws no weights",
        ),
        ({"num_train_examples": 0}, "num_train_examples"),
    ],
    ids=str,
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        FLIPOUT(**{"filters": 3, "kernel_size": 2} | arguments)


def test_other_inputs_are_refused():
    layer = make(FLIPOUT)
    with pytest.raises(ValueError, match="expected ndim=4, found ndim=3"):
        layer(np.ones((2, 5, 2)))
    layer(np.ones((2, 5, 5, 2)))
    with pytest.raises(ValueError, match="expected axis -1 .* have value 2"):
        layer(np.ones((2, 5, 5, 3)))
    with pytest.raises(ValueError, match="would be zero or negative"):
        layer(np.ones((2, 1, 1, 2)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "make_layer",
    [
        lambda: keras.layers.SeparableConv1D(3, 2),
        lambda: keras.layers.DepthwiseConv1D(2),
        lambda: keras.layers.EinsumDense("abc,cd->abd", (4, 3), bias_axes="d"),
    ],
    ids=["SeparableConv1D", "DepthwiseConv1D", "EinsumDense"],
)
@pytest.mark.parametrize(
    "estimator", ["flipout", "local_reparameterization", "reparameterization"]
)
def test_layers_of_each_step_become_bayesian_and_back(make_layer, estimator):
    inputs = keras.Input((3, 4, 2))
    outputs = keras.layers.TimeDistributed(make_layer(), name="each")(inputs)
    model = keras.Model(inputs, outputs)
    bayesian = tfr.models.to_bayesian(
        model, num_train_examples=10, estimator=estimator
    )
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 2)).astype("float32")
    with layers.mean_weights():
        np.testing.assert_array_equal(bayesian(x), model(x))
    same = np.repeat(x[:1], 2, axis=0)
    outputs = bayesian(same)
    shares = estimator == "reparameterization"
    assert np.allclose(outputs[0], outputs[1], atol=1e-6) == shares
    assert len(bayesian.losses) == len(model.trainable_weights)
    back = tfr.models.to_deterministic(bayesian)
    np.testing.assert_array_equal(back(x), model(x))
