"""Examples that count more or less than once, in trainings of members."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import ensembles
from tfp_refine import sampling

CLASS_WEIGHT = {0: 0.5, 2: 3.0}


def make_model():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    return model


def deep_ensemble(*data, **given):
    return ensembles.deep_ensemble(
        lambda seed: make_model(), *data, num_members=2, steps=1, **given
    )


def swag(*data, **given):
    return ensembles.swag(make_model(), *data, num_snapshots=2, rank=2, **given)


def sghmc(*data, **given):
    return sampling.cyclical_sghmc(
        make_model(),
        *data,
        num_cycles=1,
        samples_per_cycle=1,
        steps_per_cycle=1,
        **given,
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", [deep_ensemble, swag, sghmc])
def test_the_training_loss_is_weighted_as_that_of_fit(method, rng):
    x, y = rng.normal(size=(12, 2)), np.arange(12) % 3
    weight = np.array([0.5, 1.0, 3.0])[y]
    dataset = tf.data.Dataset.from_tensor_slices((x, y, weight)).batch(5)
    expected = make_model().evaluate(
        x, y, batch_size=12, sample_weight=weight, verbose=0
    )
    options = {"learning_rate": 1e-6, "seed": 1, "verbose": 0}
    plain, ones, *weighted = (
        method(*given, **weights, **options).history["loss"]
        for given, weights in (
            ((x, y), {}),
            ((x, y), {"sample_weight": np.ones(12)}),
            ((x, y), {"sample_weight": weight}),
            ((x, y), {"class_weight": CLASS_WEIGHT}),
            ((dataset,), {}),
        )
    )
    np.testing.assert_array_equal(ones, plain)
    assert np.all(np.abs(plain - expected) > 0.01)
    for found in weighted:
        np.testing.assert_allclose(found, expected, rtol=1e-3)
        np.testing.assert_array_equal(found, weighted[0])
