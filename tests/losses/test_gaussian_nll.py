import re

import keras
import numpy as np
import pytest
from scipy import stats

from tfp_refine import losses


def make(**kwargs):
    return losses.GaussianNLL(dtype="float64", **kwargs)


@pytest.mark.parametrize("scale", [0.2, 1.0, 3])
@pytest.mark.parametrize("shape", [(7, 1), (7, 3), (7, 2, 3)])
def test_each_example_has_the_normal_log_density_of_its_targets(
    rng, scale, shape
):
    y_true, y_pred = rng.normal(size=(2, *shape))
    found = make(scale=scale, reduction=None)(y_true, y_pred)
    log_prob = stats.norm(y_pred, scale).logpdf(y_true)
    expected = -log_prob.reshape(7, -1).sum(axis=-1)
    assert found.shape == (7,)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_reduction_is_the_mean_over_examples_unless_asked_for_the_sum(rng):
    y_true, y_pred = rng.normal(size=(2, 7, 3))
    each = make(reduction=None)(y_true, y_pred)
    np.testing.assert_allclose(make()(y_true, y_pred), np.mean(each))
    np.testing.assert_allclose(
        make(reduction="sum")(y_true, y_pred), np.sum(each)
    )


def test_noise_variance_of_one_half_is_the_mean_squared_error(rng):
    y_true, y_pred = rng.normal(size=(2, 7, 1))
    mse = keras.losses.MeanSquaredError(dtype="float64")(y_true, y_pred)
    np.testing.assert_allclose(
        make(scale=np.sqrt(0.5))(y_true, y_pred),
        mse + 0.5 * np.log(np.pi),
        rtol=1e-12,
    )


def test_units_of_the_targets_shift_the_loss_by_their_logarithm(rng):
    y_true, y_pred = rng.normal(size=(2, 7, 3))
    np.testing.assert_allclose(
        make(scale=5.0)(5.0 * y_true, 5.0 * y_pred),
        make()(y_true, y_pred) + 3.0 * np.log(5.0),
        rtol=1e-12,
    )


def test_flat_targets_are_a_column_and_never_a_table(rng):
    y_true, y_pred = rng.normal(size=(2, 7, 1))
    loss = make(reduction=None)
    np.testing.assert_array_equal(
        loss(y_true[:, 0], y_pred), loss(y_true, y_pred)
    )
    assert loss(y_true[:, 0], y_pred).shape == [7]


def test_whole_numbers_are_targets_too(rng):
    y_true, y_pred = rng.integers(9, size=(7, 1)), rng.normal(size=(7, 1))
    found = make().call(y_true, y_pred)
    assert found.dtype == "float64"
    np.testing.assert_array_equal(found, make().call(1.0 * y_true, y_pred))


@pytest.mark.parametrize(
    ("true_shape", "pred_shape"),
    [
        ((7, 1), (7, 3)),
        ((7, 3), (7, 1)),
        ((3,), (7, 3)),
        ((1, 7), (7, 1)),
        ((7, 1, 1), (7, 1)),
        ((7, 2), (7, 3)),
    ],
)
def test_targets_of_another_shape_than_the_means_are_rejected(
    true_shape, pred_shape
):
    received = re.escape(f"{pred_shape}. Received: y_true.shape={true_shape}")
    with pytest.raises(ValueError, match=f"The targets must .*{received}"):
        make()(np.zeros(true_shape), np.zeros(pred_shape))


def test_means_without_an_axis_of_targets_are_rejected():
    # The sum over the last axis would be one over the batch.
    with pytest.raises(ValueError, match=r"row of values.*shape \(7,\)"):
        make()(np.zeros(7), np.zeros(7))


@pytest.mark.parametrize(
    "scale", [0.0, -1.0, float("nan"), float("inf"), "1", None, [1.0]]
)
def test_scale_that_is_no_positive_number_is_rejected(scale):
    with pytest.raises(
        ValueError, match="`scale` must be a positive finite.*Received: scale="
    ):
        losses.GaussianNLL(scale)


def test_draws_of_outputs_are_draws_of_means(rng):
    draws = rng.normal(size=(4, 7, 3))
    loc, scale = make(scale=0.2).loc_and_scale(draws)
    np.testing.assert_array_equal(loc, draws)
    np.testing.assert_array_equal(scale, np.full((4, 7, 3), 0.2))


def test_base_class_says_what_a_subclass_must_implement():
    with pytest.raises(NotImplementedError, match="`loc_and_scale`"):
        losses.GaussianLoss()(np.zeros((2, 1)), np.zeros((2, 1)))


def test_config_survives_a_round_trip():
    loss = losses.GaussianNLL(0.2, name="noise", reduction="sum")
    config = keras.saving.serialize_keras_object(loss)
    assert config["registered_name"] == "tfp_refine>GaussianNLL"
    restored = keras.saving.deserialize_keras_object(config)
    assert isinstance(restored, losses.GaussianNLL)
    assert restored.get_config() == loss.get_config()
    assert (restored.scale, restored.name) == (0.2, "noise")
    assert restored.reduction == "sum"


def test_compiled_model_trains_on_flat_targets_and_survives_saving(
    rng, tmp_path
):
    x = rng.normal(size=(8, 3)).astype(np.float32)
    y = rng.normal(size=8).astype(np.float32)
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    model.compile("sgd", losses.GaussianNLL(0.3))
    history = model.fit(x, y, epochs=2, verbose=0).history["loss"]
    assert history[1] < history[0]
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    assert restored.loss.get_config() == model.loss.get_config()
    expected = -stats.norm(model.predict(x, verbose=0)[:, 0], 0.3).logpdf(y)
    np.testing.assert_allclose(
        restored.evaluate(x, y, verbose=0), expected.mean(), rtol=1e-5
    )
