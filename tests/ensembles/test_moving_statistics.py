import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.ensembles import moving_statistics


def recompute(model, x, copies=1):
    view = functional.WeightView(model)
    params = np.stack([view.params()] * copies)
    return moving_statistics.recompute(
        view, params, view.fixed(), tf.constant(x)
    )


def test_batches_count_by_their_size(monkeypatch, rng):
    monkeypatch.setattr(moving_statistics, "_BATCH", 5)
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.BatchNormalization()]
    )
    x = rng.normal(3.0, 1.0, size=(12, 2)).astype(np.float32)
    found = recompute(model, x)
    np.testing.assert_allclose(found[0][0], x.mean(axis=0), rtol=1e-4)


def test_weights_that_do_not_move_stay(rng):
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1), keras.layers.Dense(1)]
    )
    model.layers[0].trainable = False
    x = rng.normal(size=(7, 2)).astype(np.float32)
    found = recompute(model, x, copies=2)
    for values, expected in zip(found, model.layers[0].weights, strict=True):
        assert len(values) == 2
        for value in values:
            np.testing.assert_allclose(value, expected, rtol=1e-6)


@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e2, 1e4])
def test_moving_variances_of_inputs_of_any_size_are_precise(rng, spread):
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.BatchNormalization()]
    )
    x = rng.normal(0.0, spread, size=(200, 3)).astype("float32")
    mean, variance = recompute(model, x)
    np.testing.assert_allclose(mean[0], x.mean(0), atol=1e-3 * spread)
    np.testing.assert_allclose(variance[0], x.var(0), rtol=1e-3)
