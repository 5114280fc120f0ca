import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tfp_refine import layers
from tfp_refine import losses

# The docstring's formula of each kind, as NumPy functions of the raw value.
SCALES = {
    "softplus_scale": lambda raw: np.logaddexp(0.0, raw),
    "softplus_variance": lambda raw: np.sqrt(np.logaddexp(0.0, raw) + 1e-6),
    "log_variance": lambda raw: np.sqrt(np.exp(raw)),
}
KINDS = sorted(SCALES)


def make(noise="softplus_scale", **kwargs):
    return losses.HeteroscedasticGaussianNLL(noise, dtype="float64", **kwargs)


@pytest.mark.parametrize("noise", KINDS)
@pytest.mark.parametrize("shape", [(7, 1), (7, 3), (7, 2, 3)])
def test_each_example_has_the_normal_log_density_of_its_targets(
    rng, noise, shape
):
    y_true, loc, raw = rng.normal(size=(3, *shape))
    outputs = np.concatenate([loc, raw], axis=-1)
    found = make(noise, reduction=None)(y_true, outputs)
    log_prob = stats.norm(loc, SCALES[noise](raw)).logpdf(y_true)
    assert found.shape == (7,)
    expected = -log_prob.reshape(7, -1).sum(axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_all_kinds_agree_on_the_same_noise(rng):
    y_true, loc = rng.normal(size=(2, 7, 3))
    scale = rng.uniform(0.1, 2.0, size=(7, 3))
    raws = {
        "softplus_scale": np.log(np.expm1(scale)),
        "softplus_variance": np.log(np.expm1(scale**2 - 1e-6)),
        "log_variance": 2.0 * np.log(scale),
    }
    for noise, raw in raws.items():
        outputs = np.concatenate([loc, raw], axis=-1)
        found_loc, found_scale = make(noise).loc_and_scale(outputs)
        np.testing.assert_array_equal(found_loc, loc)
        np.testing.assert_allclose(found_scale, scale, rtol=1e-10)


@pytest.mark.parametrize("noise", KINDS)
def test_constant_noise_is_that_of_the_loss_with_known_noise(rng, noise):
    y_true, loc = rng.normal(size=(2, 7, 3))
    outputs = np.concatenate([loc, np.full((7, 3), 0.4)], axis=-1)
    known = losses.GaussianNLL(SCALES[noise](0.4), dtype="float64")
    np.testing.assert_allclose(
        make(noise)(y_true, outputs), known(y_true, loc), rtol=1e-12
    )


def test_reduction_is_the_mean_over_examples_unless_asked_for_the_sum(rng):
    y_true, outputs = rng.normal(size=(7, 3)), rng.normal(size=(7, 6))
    each = make(reduction=None)(y_true, outputs)
    np.testing.assert_allclose(make()(y_true, outputs), np.mean(each))
    np.testing.assert_allclose(
        make(reduction="sum")(y_true, outputs), np.sum(each)
    )


def test_flat_targets_are_a_column_and_never_a_table(rng):
    y_true, outputs = rng.normal(size=(7, 1)), rng.normal(size=(7, 2))
    loss = make(reduction=None)
    np.testing.assert_array_equal(
        loss(y_true[:, 0], outputs), loss(y_true, outputs)
    )
    assert loss(y_true[:, 0], outputs).shape == [7]


def test_softplus_variance_never_vanishes():
    raw = tf.Variable([[0.0, -1000.0]])
    with tf.GradientTape() as tape:
        nll = losses.HeteroscedasticGaussianNLL("softplus_variance")(
            [1e-3], raw
        )
    # One standard deviation off.
    expected = -stats.norm(0.0, 1e-3).logpdf(1e-3)
    np.testing.assert_allclose(nll, expected, rtol=1e-5)
    assert np.all(np.isfinite(tape.gradient(nll, raw)))


@pytest.mark.parametrize("noise", KINDS)
def test_draws_of_outputs_are_draws_of_means_and_scales(rng, noise):
    draws = rng.normal(size=(4, 7, 6))
    loc, scale = make(noise).loc_and_scale(draws)
    np.testing.assert_array_equal(loc, draws[..., :3])
    np.testing.assert_allclose(scale, SCALES[noise](draws[..., 3:]), rtol=1e-12)


@pytest.mark.parametrize(
    ("true_shape", "pred_shape"),
    [
        ((7, 2), (7, 2)),
        ((7, 1), (7, 6)),
        ((3,), (7, 6)),
        ((1, 7), (7, 2)),
        ((7, 1, 1), (7, 2)),
    ],
)
def test_targets_of_another_shape_than_the_means_are_rejected(
    true_shape, pred_shape
):
    with pytest.raises(ValueError, match=r"targets must .*y_true.shape"):
        make()(np.zeros(true_shape), np.zeros(pred_shape))


@pytest.mark.parametrize("size", [1, 3])
def test_an_odd_number_of_outputs_is_rejected(size):
    with pytest.raises(ValueError, match=rf"multiple of 2 .*\(7, {size}\)"):
        make()(np.zeros((7, 1)), np.zeros((7, size)))


def test_outputs_without_an_axis_of_targets_are_rejected():
    with pytest.raises(ValueError, match=r"row of values.*shape \(8,\)"):
        make()(np.zeros(4), np.zeros(8))


def test_outputs_without_any_axis_are_rejected():
    with pytest.raises(ValueError, match=r"multiple of 2.*shape \(\)"):
        make()(np.zeros(()), np.zeros(()))


@pytest.mark.parametrize("noise", ["exp", [], {}, None])
def test_unknown_noise_is_rejected(noise):
    message = (
        f"`noise` must be one of .*'softplus_scale'.*{re.escape(repr(noise))}"
    )
    with pytest.raises(ValueError, match=message):
        losses.HeteroscedasticGaussianNLL(noise)


@pytest.mark.parametrize("noise", KINDS)
def test_config_survives_a_round_trip(noise):
    loss = losses.HeteroscedasticGaussianNLL(noise, "nll", reduction="sum")
    config = keras.saving.serialize_keras_object(loss)
    assert config["registered_name"] == "tfp_refine>HeteroscedasticGaussianNLL"
    restored = keras.saving.deserialize_keras_object(config)
    assert isinstance(restored, losses.HeteroscedasticGaussianNLL)
    assert restored.get_config() == loss.get_config()
    assert (restored.noise, restored.name) == (noise, "nll")
    assert restored.reduction == "sum"


def test_compiled_model_survives_saving(rng, tmp_path):
    x = rng.normal(size=(8, 3)).astype(np.float32)
    y = rng.normal(size=(8, 2)).astype(np.float32)
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(4)])
    model.compile("sgd", losses.HeteroscedasticGaussianNLL("log_variance"))
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    assert restored.loss.get_config() == model.loss.get_config()
    np.testing.assert_allclose(
        restored.evaluate(x, y, verbose=0),
        model.evaluate(x, y, verbose=0),
        rtol=1e-6,
    )


# Together with `layers.HomoscedasticNoise`.


def test_noise_layer_starts_from_its_initial_scale_for_every_input(rng):
    means = rng.normal(size=(7, 3))
    outputs = layers.HomoscedasticNoise(0.3, dtype="float64")(means)
    loc, scale = make().loc_and_scale(outputs)
    np.testing.assert_array_equal(loc, means)
    np.testing.assert_allclose(scale, np.full((7, 3), 0.3), rtol=1e-6)


@pytest.mark.slow
def test_learned_noise_is_the_deviation_of_the_least_squares_residuals(rng):
    # Maximum likelihood: the residuals' root mean square, of each target.
    x = rng.normal(size=(50, 2))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = x @ rng.normal(size=(2, 2)) + rng.normal(size=(50, 2)) * [0.4, 1.5]
    design = np.column_stack([x, np.ones(50)])
    coefficients, squares, *_ = np.linalg.lstsq(design, y)

    model = keras.Sequential(
        [
            keras.Input([2], dtype="float64"),
            keras.layers.Dense(2, dtype="float64"),
            layers.HomoscedasticNoise(dtype="float64"),
        ]
    )
    loss = make()

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            nll = loss(y, model(x))
        gradients = tape.gradient(nll, model.trainable_variables)
        for variable, gradient in zip(
            model.trainable_variables, gradients, strict=True
        ):
            variable.assign_sub(0.1 * gradient)

    for _ in range(600):
        step()
    kernel, bias = model.layers[0].get_weights()
    np.testing.assert_allclose(
        np.vstack([kernel, bias]), coefficients, rtol=1e-7, atol=1e-7
    )
    _, scale = loss.loc_and_scale(model(x))
    expected = np.broadcast_to(np.sqrt(squares / 50), (50, 2))
    np.testing.assert_allclose(scale, expected, rtol=1e-7)


def test_noise_layer_and_loss_survive_saving_together(rng, tmp_path):
    x = rng.normal(size=(8, 3)).astype(np.float32)
    y = rng.normal(size=8).astype(np.float32)
    model = keras.Sequential(
        [
            keras.Input([3]),
            keras.layers.Dense(1),
            layers.HomoscedasticNoise(0.5),
        ]
    )
    model.compile("sgd", losses.HeteroscedasticGaussianNLL())
    model.fit(x, y, epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    assert restored.layers[-1].initial_scale == 0.5
    np.testing.assert_array_equal(restored(x), model(x))
    np.testing.assert_allclose(
        restored.evaluate(x, y, verbose=0),
        model.evaluate(x, y, verbose=0),
        rtol=1e-6,
    )


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), "1", None])
def test_initial_noise_that_is_no_positive_number_is_rejected(value):
    with pytest.raises(
        ValueError, match="`initial_scale` must be a positive finite.*Received"
    ):
        layers.HomoscedasticNoise(value)
