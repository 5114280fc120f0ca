import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.ensembles import member_training
from tfp_refine.ensembles import moving_statistics
from tfp_refine.ensembles import optimizers
from tfp_refine.ensembles import progress as progress_lib

N = 12


@pytest.mark.parametrize("bootstrap", [False, True])
def test_each_epoch_has_all_examples_in_an_order_of_its_own(bootstrap):
    model = keras.Sequential(
        [keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")]
    )
    model.layers[0].kernel.trainable = False
    weights = functional.ModelWeights(model)
    # At a rate of 1, the bias becomes the target of the one example.
    schedule = member_training.Schedule(
        3 * N, 1, lambda number: tf.ones([]), optimizers.Momentum(0.0)
    )
    y = np.arange(N, dtype=np.float32)[:, np.newaxis]
    training = member_training.MemberTraining(
        weights,
        lambda y, mean: 0.5 * tf.square(y - mean)[:, 0],
        np.zeros((N, 1), np.float32),
        y,
        schedule,
        0,
        bootstrap,
        None,
    )
    params, others = (np.stack([v, v]) for v in weights.values())
    progress = progress_lib.Progress(
        member_training.MemberState(
            params, others, schedule.optimizer.zeros(params)
        ),
        None,
    )
    progress.train(training, 3 * N, 0, collect=range(1, 3 * N + 1))
    rows = np.array([params[:, 0] for params, _ in progress.snapshots])
    epochs = np.rint(rows).astype(int).T.reshape(6, N)  # of two members
    assert len({tuple(epoch) for epoch in epochs}) == 6
    for member in (epochs[:3], epochs[3:]):
        examples = [np.sort(epoch).tolist() for epoch in member]
        assert examples[0] == examples[1] == examples[2]
        assert (examples[0] == list(range(N))) == (not bootstrap)


def test_noise_comes_only_when_it_should():
    optimizer = optimizers.Momentum(0.5, 4.0, lambda number: number >= 10)
    zeros = tf.zeros([1000])
    state = optimizer.zeros(zeros)
    rate, key = tf.constant(0.25), tf.constant(1, tf.int64)
    quiet, _ = optimizer.step(zeros, zeros, state, tf.constant(9), rate, key)
    np.testing.assert_array_equal(quiet, 0.0)
    noisy, _ = optimizer.step(zeros, zeros, state, tf.constant(10), rate, key)
    # Six standard errors of the standard deviation of 1000 draws.
    assert abs(np.std(noisy) - 1.0) < 6.0 / np.sqrt(2000.0)
    other, _ = optimizer.step(zeros, zeros, state, tf.constant(11), rate, key)
    assert abs(np.corrcoef(noisy, other)[0, 1]) < 6.0 / np.sqrt(1000.0)


def test_noise_of_samples_is_not_that_of_layers():
    optimizer = optimizers.Momentum(0.0, 1.0, lambda number: True)
    zeros, number = tf.zeros([1000]), tf.constant(7)
    key = tf.constant(3, tf.int64)
    noise, _ = optimizer.step(
        zeros, zeros, optimizer.zeros(zeros), number, tf.constant(1.0), key
    )
    of_layers = tf.random.stateless_normal([1000], [3, 7])
    # Six standard errors.
    assert abs(np.corrcoef(noise, of_layers)[0, 1]) < 6.0 / np.sqrt(1000.0)


def test_batches_of_moving_averages_count_by_their_size(monkeypatch, rng):
    monkeypatch.setattr(moving_statistics, "_BATCH", 5)
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.BatchNormalization()]
    )
    weights = functional.ModelWeights(model)
    params, others = weights.values()
    x = rng.normal(3.0, 1.0, size=(12, 2)).astype(np.float32)
    found = moving_statistics.recompute(
        weights, params[np.newaxis], others[np.newaxis], tf.constant(x)
    )
    np.testing.assert_allclose(found[0, :2], x.mean(axis=0), rtol=1e-4)


def test_weights_that_do_not_move_stay(rng):
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1), keras.layers.Dense(1)]
    )
    model.layers[0].trainable = False
    weights = functional.ModelWeights(model)
    params, others = weights.values()
    x = tf.constant(rng.normal(size=(7, 2)), tf.float32)
    several = np.stack([others, others + 1.0])
    found = moving_statistics.recompute(
        weights, np.stack([params, params]), several, x
    )
    np.testing.assert_allclose(found, several, rtol=1e-6)


@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e2, 1e4])
def test_moving_variances_of_inputs_of_any_size_are_precise(rng, spread):
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.BatchNormalization()]
    )
    x = rng.normal(0.0, spread, size=(200, 3)).astype("float32")
    weights = functional.ModelWeights(model)
    params, others = weights.values()
    found = moving_statistics.recompute(
        weights, params[np.newaxis], others[np.newaxis], tf.constant(x)
    )[0]
    mean, variance = found[:3], found[3:6]
    np.testing.assert_allclose(mean, x.mean(0), atol=1e-3 * spread)
    np.testing.assert_allclose(variance, x.var(0), rtol=1e-3)
