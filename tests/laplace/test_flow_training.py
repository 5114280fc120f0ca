"""The training of flows, on losses whose minimizer's course is known."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_refine.functional import train
from tfp_refine.laplace import refinement


def run(loss, inputs=(1.0,), *, epochs=1, batch_size=1, key=0):
    """Trains one number `a`, at first 0, with a rate of 0.5.

    Args:
        loss: Function of `a`, a batch of inputs, a key and a step.
        inputs: `[N]`.
        epochs: Passes over them.
        batch_size: Examples in a step.
        key: Integer.

    Returns:
        a: Float.
        trace: Array.
    """
    inputs = np.asarray(inputs, np.float64)

    def of_member(params, fixed, common, batch, key, step):
        value = loss(params["a"][0], batch[0], key, step)
        return value, value, fixed

    params, trace = refinement.train_params(
        of_member,
        {"a": np.zeros(1)},
        (inputs, 10.0 * inputs),
        train.Batches(len(inputs), batch_size),
        epochs,
        0.5,
        key,
        verbose=0,
    )
    return params["a"].item(), trace


@pytest.mark.parametrize("epochs", [1, 7, 45])
def test_every_step_is_taken_with_a_rate_that_falls_as_a_cosine(epochs):
    found, _ = run(lambda a, *_: -a, np.ones(9), epochs=epochs, batch_size=3)
    # With a gradient that never changes, Adam moves by the rate itself.
    steps = 3 * epochs
    rates = 0.25 * (1 + np.cos(np.pi * np.arange(steps) / steps))
    np.testing.assert_allclose(found, rates.sum(), rtol=1e-4)


def test_batches_of_an_epoch_are_different_examples():
    numbers = 2.0 ** np.arange(6)
    _, trace = run(
        lambda a, inputs, *_: 0.0 * a + tf.reduce_sum(inputs),
        numbers,
        epochs=5,
        batch_size=2,
    )
    np.testing.assert_allclose(trace, numbers.sum() / 3)


def test_epochs_leave_out_different_examples():
    numbers = 2.0 ** np.arange(5)
    _, trace = run(
        lambda a, inputs, *_: 0.0 * a + tf.reduce_sum(inputs),
        numbers,
        epochs=20,
        batch_size=2,
    )
    left_out = numbers.sum() - 2 * trace
    assert set(np.round(left_out, 6)) == set(numbers)


def test_keys_fix_the_draws():
    def loss(a, inputs, key, step):
        z = tf.random.stateless_normal([], tf.stack([key, step]))
        return 0.0 * a + tf.cast(z, tf.float64)

    one, same, other = (run(loss, epochs=20, key=key)[1] for key in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).all()
    assert len(set(one)) == 20


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_bound_that_is_not_finite_is_an_error(value):
    with pytest.raises(FloatingPointError, match="lower learning rate"):
        run(lambda a, *_: 0.0 * a + value)
