"""The training loop, on bounds whose maximizer's course is known."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_refine.laplace import flow_training


def train(
    bound,
    inputs=(1.0,),
    *,
    epochs=1,
    batch_size=1,
    learning_rate=0.5,
    num_samples=1,
    seed=0,
):
    """Trains one number `a`, at first 0.

    Args:
        bound: Function of weights `a + z`, a batch of inputs and of targets,
            and the factor of the likelihood.
        inputs: `[N]`; targets are ten times as much.
        epochs: As for `Schedule`.
        batch_size: As for `Schedule`.
        learning_rate: As for `Schedule`.
        num_samples: As for `Schedule`.
        seed: Integer.

    Returns:
        a: Float.
        trace: Array.
    """
    inputs = np.asarray(inputs, np.float64)
    trainer = flow_training.Trainer(
        bound,
        lambda params, z: (params["a"] + z, tf.zeros_like(z[:, 0])),
        inputs,
        10.0 * inputs,
        flow_training.Schedule(epochs, batch_size, learning_rate, num_samples),
        seed,
    )
    params, trace = trainer.train({"a": np.zeros(1)}, 1, verbose=0)
    return params["a"].item(), np.array(trace)


def constant(theta, value):
    """Returns a bound of this value, flat in the weights."""
    return 0.0 * theta[:, 0] + tf.cast(value, theta.dtype)


@pytest.mark.parametrize("epochs", [1, 7, 45])
def test_every_step_is_taken_with_a_rate_that_falls_as_a_cosine(epochs):
    found, _ = train(
        lambda theta, *_: theta[:, 0],
        np.ones(9),
        epochs=epochs,
        batch_size=3,
    )
    # With a gradient that never changes, Adam moves by the rate itself.
    steps = 3 * epochs
    rates = 0.25 * (1 + np.cos(np.pi * np.arange(steps) / steps))
    np.testing.assert_allclose(found, rates.sum(), rtol=1e-4)


def test_the_factor_is_that_of_all_examples_to_those_of_a_batch():
    _, trace = train(
        lambda theta, inputs, targets, factor: constant(theta, factor),
        np.ones(10),
        epochs=3,
        batch_size=4,
    )
    np.testing.assert_allclose(trace, [2.5, 2.5, 2.5])


def test_batches_of_an_epoch_are_different_examples():
    numbers = 2.0 ** np.arange(6)
    _, trace = train(
        lambda theta, inputs, *_: constant(theta, tf.reduce_sum(inputs)),
        numbers,
        epochs=5,
        batch_size=2,
    )
    np.testing.assert_allclose(trace, numbers.sum() / 3)


def test_epochs_leave_out_different_examples():
    numbers = 2.0 ** np.arange(5)
    _, trace = train(
        lambda theta, inputs, *_: constant(theta, tf.reduce_sum(inputs)),
        numbers,
        epochs=20,
        batch_size=2,
    )
    left_out = numbers.sum() - 2 * trace
    assert set(np.round(left_out, 6)) == set(numbers)


def test_targets_are_those_of_the_inputs():
    _, trace = train(
        lambda theta, inputs, targets, _: constant(
            theta, tf.reduce_max(tf.abs(targets - 10.0 * inputs))
        ),
        np.arange(6.0),
        epochs=3,
        batch_size=2,
    )
    np.testing.assert_array_equal(trace, 0.0)


@pytest.mark.parametrize("num_samples", [1, 3])
def test_a_step_has_as_many_draws_as_asked_for(num_samples):
    _, trace = train(
        lambda theta, *_: constant(theta, tf.shape(theta)[0]),
        num_samples=num_samples,
    )
    np.testing.assert_array_equal(trace, num_samples)


def test_seeds_fix_the_draws():
    one, same, other = (
        train(lambda theta, *_: theta[:, 0], epochs=2, seed=seed)[1]
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_bound_that_is_not_finite_is_an_error(value):
    with pytest.raises(FloatingPointError, match="lower learning rate"):
        train(lambda theta, *_: constant(theta, value))
