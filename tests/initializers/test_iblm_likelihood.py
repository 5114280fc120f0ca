import keras
import numpy as np
import pytest

from tests.support import bayesian_linear
from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine.initializers import iblm

PRIOR = {"prior_variance": 0.3, "bias_prior_variance": 2.0}


@pytest.fixture
def data(rng):
    x = rng.normal(size=(30, 4))
    y = x @ rng.normal(size=(4, 2)) + rng.normal(size=(30, 2))
    return bayesian_linear.float32(x), bayesian_linear.float32(y)


def initialize(model, x, y, make=initializers.IBLM, **arguments):
    make(**PRIOR, **arguments, seed=0, verbose=False)(model, x, y)
    return bayesian_linear.read(model.get_layer("linear"))


def expected_of(x, y, noise):
    mean, precision = bayesian_linear.posterior(
        bayesian_linear.with_ones(x), y, noise, [0.3] * 4 + [2.0]
    )
    return mean, bayesian_linear.inverse_diagonals(precision)


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def unnamed_loss(y_true, y_pred):
    return keras.ops.abs(y_true - y_pred)


@pytest.mark.parametrize(
    ("loss", "noise"),
    [
        (losses.GaussianNLL(0.4), 0.16),
        ("mse", 0.5),
        ("mean_squared_error", 0.5),
        (keras.losses.MeanSquaredError(), 0.5),
        (keras.losses.MeanSquaredError(name="mine"), 0.5),
        (keras.losses.mean_squared_error, 0.5),
        ("mae", np.exp(-2.0)),
        (unnamed_loss, np.exp(-2.0)),
        (None, np.exp(-2.0)),
    ],
    ids=lambda v: str(getattr(v, "name", getattr(v, "__name__", v))),
)
def test_the_noise_is_that_of_the_loss(loss, noise, data):
    model = bayesian_linear.dense_model(4, 2)
    if loss is not None:
        model.compile("sgd", loss)
    assert_close(initialize(model, *data), expected_of(*data, noise))


@pytest.mark.parametrize("loss", [losses.GaussianNLL(0.4), "mse", None])
def test_an_argument_takes_the_place_of_the_noise(loss, data):
    model = bayesian_linear.dense_model(4, 2)
    if loss is not None:
        model.compile("sgd", loss)
    found = initialize(model, *data, noise_variance=0.07)
    assert_close(found, expected_of(*data, 0.07))


def test_the_paper_knows_one_noise_only(data):
    model = bayesian_linear.dense_model(4, 2)
    model.compile("sgd", losses.GaussianNLL(0.4))
    found = initialize(model, *data, iblm.PaperIBLM)
    assert_close(found, expected_of(*data, np.exp(-2.0)))


# Models that have a noise.


def homoscedastic(scale):
    inputs = keras.Input((4,))
    linear = layers.DenseReparameterization(2, dtype="float64", name="linear")
    noise = layers.HomoscedasticNoise(scale, dtype="float64")
    return keras.Model(inputs, noise(linear(inputs)))


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_learned_noise_is_used_as_it_is_and_kept(is_compiled, data):
    model = homoscedastic(0.6)
    if is_compiled:
        model.compile("sgd", losses.HeteroscedasticGaussianNLL())
    raw = np.array(model.layers[-1].untransformed_scale)
    assert_close(initialize(model, *data), expected_of(*data, 0.36))
    np.testing.assert_array_equal(model.layers[-1].untransformed_scale, raw)


def test_a_noise_of_several_scales_has_their_mean_variance(data):
    model = homoscedastic(0.6)
    model.layers[-1].untransformed_scale.assign(np.log(np.expm1([0.2, 1.0])))
    assert_close(initialize(model, *data), expected_of(*data, 0.52))


KINDS = {
    "softplus_scale": lambda raw: np.logaddexp(0.0, raw) ** 2,
    "softplus_variance": lambda raw: np.logaddexp(0.0, raw) + 1e-6,
    "log_variance": np.exp,
}

# The value that each kind reads as a variance of 1/4.
RAW_VALUES = {
    "softplus_scale": np.log(np.expm1(0.5)),
    "softplus_variance": np.log(np.expm1(0.25 - 1e-6)),
    "log_variance": np.log(0.25),
}


@pytest.mark.parametrize("kind", KINDS)
def test_two_heads_get_the_targets_and_the_raw_noise(kind, data):
    model = bayesian_linear.dense_model(4, 4)
    model.compile("sgd", losses.HeteroscedasticGaussianNLL(kind))
    found = initialize(model, *data, noise_variance=0.25)
    x, y = data
    raw = RAW_VALUES[kind]
    np.testing.assert_allclose(KINDS[kind](raw), 0.25, rtol=1e-10)
    targets = np.hstack([y, np.full_like(y, raw)])
    assert_close(found, expected_of(x, targets, 0.25))


def test_two_heads_without_a_loss_are_read_as_the_default_one(data):
    model = bayesian_linear.dense_model(4, 4)
    found = initialize(model, *data, noise_variance=0.25)
    x, y = data
    raw = np.log(np.expm1(0.5))
    targets = np.hstack([y, np.full_like(y, raw)])
    assert_close(found, expected_of(x, targets, 0.25))


def test_two_heads_start_with_the_noise_that_they_had(data):
    model = bayesian_linear.dense_model(4, 4)
    loss = losses.HeteroscedasticGaussianNLL()
    model.compile("sgd", loss)
    kernel, bias = model.get_layer("linear").variational_weights
    kernel.initialize(0.0, 1e-9)
    bias.initialize([0.0, 0.0, -0.3, -0.3], 1e-9)
    variance = np.logaddexp(0.0, -0.3) ** 2
    found = initialize(model, *data)
    x, y = data
    targets = np.hstack([y, np.full_like(y, -0.3)])
    assert_close(found, expected_of(x, targets, variance))


@pytest.mark.parametrize("y_shape", [(30,), (30, 1)])
def test_one_target_with_two_outputs_is_a_mean_and_a_noise(y_shape, data):
    x, y = data
    model = bayesian_linear.dense_model(4, 2)
    found = initialize(
        model, x, np.reshape(y[:, 0], y_shape), noise_variance=0.25
    )
    raw = np.log(np.expm1(0.5))
    targets = np.stack([y[:, 0], np.full(30, raw)], axis=-1)
    assert_close(found, expected_of(x, targets, 0.25))


# The task.


@pytest.mark.parametrize("loss", ["mse", losses.GaussianNLL()])
def test_integers_are_no_classes_for_a_loss_of_regression(loss, data, rng):
    x, _ = data
    y = rng.integers(2, size=(30, 2))
    model = bayesian_linear.dense_model(4, 2)
    model.compile("sgd", loss)
    found = initialize(model, x, y, noise_variance=0.25)
    assert_close(found, expected_of(x, y, 0.25))


def test_integers_for_one_output_are_no_classes_but_for_zero_and_one(data, rng):
    x, _ = data
    y = rng.integers(4, size=(30, 1))
    found = initialize(
        bayesian_linear.dense_model(4, 1), x, y, noise_variance=0.25
    )
    assert_close(found, expected_of(x, y, 0.25))


def test_the_argument_says_what_the_task_is(data, rng):
    x, _ = data
    y = np.eye(2)[rng.integers(2, size=30)]
    model = bayesian_linear.dense_model(4, 2)
    model.compile("sgd", keras.losses.CategoricalCrossentropy())
    found = initialize(model, x, y, noise_variance=0.25, task="regression")
    assert_close(found, expected_of(x, y, 0.25))
