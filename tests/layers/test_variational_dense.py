import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.support import dense_draws
from tests.support import layer_case
from tests.support import statistics
from tfp_refine import layers
from tfp_refine import regularizers

tfd = tfp.distributions

all_layers = pytest.mark.parametrize(
    "make_layer",
    [
        layers.DenseReparameterization,
        layers.DenseLocalReparameterization,
        layers.DenseFlipout,
    ],
)


@all_layers
def test_each_output_has_the_exact_mean_and_variance(make_layer):
    draws = dense_draws.draw(make_layer)
    variance = np.diag(dense_draws.covariance())
    statistics.assert_mean(
        draws,
        dense_draws.mean(),
        np.sqrt(variance),
        resolves=0.1 * np.sqrt(variance),
    )
    statistics.assert_variance(draws, variance, resolves_ratio=1.15)


@all_layers
@pytest.mark.parametrize("point", ["kernel", "bias"])
def test_a_point_estimate_adds_no_variance(make_layer, point):
    layer = make_layer(
        dense_draws.NUM_DRAWS,
        kernel_initializer="ones",
        seed=5,
        kernel_posterior=layers.MeanFieldPosterior(0.5),
        bias_posterior=layers.MeanFieldPosterior(0.8),
    )
    layer = make_layer.from_config(
        {**layer.get_config(), f"{point}_posterior": None}
    )
    x = np.array([[1.0, -2.0, 0.5]], "float32")
    expected = {
        "bias": 0.5**2 * np.sum(x**2),
        "kernel": 0.8**2,
    }[point]
    draws = np.asarray(layer(x))[0]
    statistics.assert_mean(
        draws,
        np.sum(x),
        np.sqrt(expected),
        resolves=0.1 * np.sqrt(expected),
    )
    statistics.assert_variance(draws, expected, resolves_ratio=1.15)


@all_layers
def test_kl_is_that_of_tfp_divided_by_the_number_of_examples(make_layer, rng):
    layer = make_layer(
        5,
        kernel_regularizer=regularizers.GaussianKL(0.5),
        bias_regularizer=regularizers.GaussianKL(3.0),
        num_train_examples=40,
    )
    layer.build((None, 4))
    expected = 0.0
    for weight, prior_scale in zip(
        layer.variational_weights, [0.5, 3.0], strict=True
    ):
        loc = rng.normal(size=weight.loc.shape)
        scale = rng.uniform(0.01, 2.0, size=weight.loc.shape)
        weight.assign(loc=loc, scale=scale)
        kl = tfd.kl_divergence(
            tfd.Normal(loc, scale),
            tfd.Normal(np.float64(0.0), np.float64(prior_scale)),
        )
        expected += np.sum(kl) / 40
    np.testing.assert_allclose(
        layer_case.total(layer.losses), expected, rtol=1e-5
    )


@all_layers
def test_every_argument_survives_the_config(make_layer):
    arguments = {
        "units": 4,
        "activation": "tanh",
        "use_bias": False,
        "kernel_initializer": keras.initializers.HeNormal(seed=3),
        "bias_initializer": keras.initializers.Constant(0.5),
        "kernel_regularizer": regularizers.EmpiricalBayesKL(True),
        "bias_regularizer": regularizers.GaussianKL(0.5),
        "activity_regularizer": keras.regularizers.L1(0.1),
        "kernel_constraint": keras.constraints.MaxNorm(2.0),
        "bias_constraint": keras.constraints.NonNeg(),
        "kernel_posterior": layers.MeanFieldPosterior(0.3),
        "bias_posterior": None,
        "num_train_examples": 12,
        "kl_scale": 0.5,
        "sample": False,
        "seed": 7,
    }
    assert set(arguments) == layer_case.init_arguments(make_layer)
    layer = make_layer(**arguments)
    copy = make_layer.from_config(layer.get_config())
    default = make_layer(3).get_config()
    for config in (layer.get_config(), copy.get_config()):
        for name, value in arguments.items():
            assert config[name] != default[name], name
            if isinstance(value, str | int | float | None):
                assert config[name] == value
            else:
                assert config[name]["config"] == value.get_config(), name


@pytest.mark.slow
@all_layers
def test_a_short_last_batch_and_odd_widths_are_no_trouble(make_layer, rng):
    # 153 * 29 weights: more than the few that Keras' own normals are used for.
    layer = make_layer(29, num_train_examples=151)
    model = keras.Sequential([keras.Input((153,)), layer])
    model.compile("sgd", "mse")
    x = rng.normal(size=(151, 153)).astype("float32")
    history = model.fit(x, x[:, :29], batch_size=148, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    assert model.predict(x, verbose=0).shape == (151, 29)


@pytest.mark.slow
@all_layers
def test_noise_under_xla_has_the_right_size_too(make_layer):
    layer = make_layer(
        29,
        use_bias=False,
        kernel_initializer="zeros",
        kernel_posterior=layers.MeanFieldPosterior(0.5),
        seed=4,
    )
    x = np.eye(153, dtype="float32")
    draws = np.ravel(tf.function(layer, jit_compile=True)(x))
    statistics.assert_mean(draws, 0.0, 0.5, resolves=0.1)
    statistics.assert_variance(draws, 0.25, resolves_ratio=1.4)


@all_layers
@pytest.mark.parametrize("units", [0, -3, 2.0, "4", None])
def test_units_must_be_a_positive_integer(make_layer, units):
    with pytest.raises(ValueError, match="`units` must be a positive integer"):
        make_layer(units)


def test_inputs_of_unknown_width_are_refused():
    with pytest.raises(ValueError, match="last axis .* must have a known size"):
        layers.DenseFlipout(3)(keras.Input((None,)))


def test_inputs_of_another_width_or_rank_are_refused():
    layer = layers.DenseFlipout(3)
    with pytest.raises(ValueError, match="expected min_ndim=2"):
        layer(np.ones(4, "float32"))
    layer(np.ones([2, 4], "float32"))
    with pytest.raises(ValueError, match="expected axis -1 .* have value 4"):
        layer(np.ones([2, 5], "float32"))


def test_inputs_without_features_are_refused():
    for posterior in ("k_tied", "mean_field"):
        layer = layers.DenseFlipout(2, kernel_posterior=posterior)
        with pytest.raises(ValueError, match="known size above 0.*4, 0"):
            layer(np.ones((4, 0), "float32"))
