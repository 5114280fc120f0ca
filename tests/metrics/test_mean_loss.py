import keras
import numpy as np
import pytest

from tfp_refine import losses
from tfp_refine import metrics


def test_it_is_the_mean_over_examples_whatever_the_batches(rng):
    loss = losses.GaussianNLL(0.5)
    y, outputs = rng.normal(size=(2, 11, 3)).astype("float32")
    metric = metrics.MeanLoss(loss)
    for rows in (slice(0, 8), slice(8, 11)):
        metric.update_state(y[rows], outputs[rows])
    expected = np.mean(
        np.sum(
            0.5 * np.square((y - outputs) / 0.5)
            + np.log(0.5 * np.sqrt(2.0 * np.pi)),
            axis=-1,
        )
    )
    np.testing.assert_allclose(metric.result(), expected, rtol=1e-5)
    assert metric.name == "nll"


def test_weights_of_examples_count(rng):
    metric = metrics.MeanLoss("mse", name="error")
    y = np.zeros((3, 1), np.float32)
    metric.update_state(y, y + [[1.0], [2.0], [3.0]], [1.0, 0.0, 3.0])
    np.testing.assert_allclose(metric.result(), 28.0 / 4.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss",
    [
        losses.HeteroscedasticGaussianNLL(),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "mse",
    ],
    ids=["gaussian", "classes", "name"],
)
def test_it_has_no_penalties_and_is_saved_with_a_model(loss, tmp_path):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, kernel_regularizer="l2"),
        ]
    )
    model.compile("sgd", loss, metrics=[metrics.MeanLoss(loss)])
    x = np.ones((6, 3), np.float32)
    y = np.zeros((6, 1), np.float32)
    if loss == "mse":
        y = np.zeros((6, 2), np.float32)
    logs = model.evaluate(x, y, verbose=0, return_dict=True)
    penalty = float(sum(model.losses))
    assert penalty > 0.0
    np.testing.assert_allclose(
        logs["nll"], logs["loss"] - penalty, rtol=1e-4, atol=1e-6
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    again = loaded.evaluate(x, y, verbose=0, return_dict=True)
    np.testing.assert_allclose(again["nll"], logs["nll"], rtol=1e-5)


def test_options_are_kept():
    metric = metrics.MeanLoss("mse", name="error", dtype="float64")
    copy = metrics.MeanLoss.from_config(metric.get_config())
    for kept in (metric, copy):
        kept.update_state(np.zeros((1, 1)), np.full((1, 1), 1e-4))
        assert kept.name == "error"
        assert kept.result().dtype == "float64"
        np.testing.assert_allclose(kept.result(), 1e-8, rtol=1e-12)


@pytest.mark.parametrize("loss", ["magic", None, 3])
def test_bad_losses(loss):
    with pytest.raises((ValueError, TypeError)):
        metrics.MeanLoss(loss)


def test_masked_positions_do_not_count(rng):
    tokens = keras.Input([5], dtype="int32")
    x = keras.layers.Embedding(9, 3, mask_zero=True)(tokens)
    model = keras.Model(tokens, keras.layers.Dense(4)(x))
    x = rng.integers(1, 9, size=(6, 5))
    x[:, 3:], x[2] = 0, 0
    y = np.where(x, rng.integers(4, size=(6, 5)), -1)
    loss = losses.CategoricalNLL()
    nll = metrics.MeanLoss(loss)
    model.compile("sgd", loss, metrics=[nll])
    logs = model.evaluate(x, y, batch_size=6, verbose=0, return_dict=True)
    np.testing.assert_allclose(logs["nll"], logs["loss"], rtol=1e-6)
    # As Keras has it, for a loss that keeps positions: the mean over them.
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=[metrics.MeanLoss(loss)])
    y = np.maximum(y, 0)
    logs = model.evaluate(x, y, batch_size=6, verbose=0, return_dict=True)
    np.testing.assert_allclose(logs["nll"], logs["loss"], rtol=1e-6)
