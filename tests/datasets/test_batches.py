import numpy as np
import pytest
import tensorflow as tf

from tfp_refine.datasets import batches


def _rows(seed, count, batch_size=4):
    x = np.arange(10)[:, np.newaxis]
    stream = batches.training_batches(x, x * 2, batch_size, seed)
    taken = list(stream.take(count).as_numpy_iterator())
    for inputs, targets in taken:
        np.testing.assert_array_equal(targets, 2 * inputs)
    return [inputs[:, 0] for inputs, _ in taken]


def test_an_epoch_has_no_example_twice():
    rows = _rows(seed=1, count=20)
    for epoch in range(10):
        seen = np.concatenate(rows[2 * epoch : 2 * epoch + 2])
        assert len(seen) == len(np.unique(seen)) == 8


def test_epochs_differ_and_every_example_comes_up():
    rows = _rows(seed=1, count=20)
    assert not np.array_equal(rows[0], rows[2])
    assert set(np.concatenate(rows)) == set(range(10))


def test_seed_fixes_the_stream():
    np.testing.assert_array_equal(_rows(1, 6), _rows(1, 6))
    assert not np.array_equal(_rows(1, 6), _rows(2, 6))


def _shifted(x, seed):
    return x + tf.cast(seed[0], x.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("first_step", [1, 2, 5])
@pytest.mark.parametrize("augment", [None, _shifted])
def test_a_stream_may_start_at_any_step(first_step, augment):
    x = np.arange(10, dtype=np.int64)[:, np.newaxis]
    whole = batches.training_batches(x, x, 4, 1, augment)
    later = batches.training_batches(x, x, 4, 1, augment, first_step)
    for one, other in zip(
        whole.skip(first_step).take(4), later.take(4), strict=True
    ):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


def test_few_examples_are_one_batch():
    for rows in _rows(seed=1, count=3, batch_size=10):
        np.testing.assert_array_equal(rows, np.arange(10))


def test_stream_of_a_seed_is_the_one_results_were_made_with():
    # Written down before streams could be augmented.
    assert [rows.tolist() for rows in _rows(seed=1, count=3)] == [
        [9, 2, 1, 6],
        [5, 0, 8, 4],
        [6, 4, 5, 3],
    ]


def _noisy_stream(count, skip=0, seed=1, batch_size=4):
    """Takes batches to which random numbers are added, and their targets."""

    def augment(x, seed):
        return x + tf.random.stateless_uniform(tf.shape(x), seed, dtype=x.dtype)

    x = np.arange(10.0)[:, np.newaxis]
    stream = batches.training_batches(
        x, x * 2, batch_size, seed, augment=augment
    )
    return list(stream.skip(skip).take(count).as_numpy_iterator())


def test_augmented_stream_has_the_examples_of_the_plain_one():
    plain = _rows(seed=1, count=6)
    for (inputs, targets), rows in zip(_noisy_stream(6), plain, strict=True):
        np.testing.assert_array_equal(targets[:, 0], 2 * rows)
        np.testing.assert_array_equal(np.floor(inputs[:, 0]), rows)


@pytest.mark.parametrize("batch_size", [4, 10])
def test_augmented_stream_repeats_itself_from_any_step(batch_size):
    whole = _noisy_stream(7, batch_size=batch_size)
    again = _noisy_stream(4, skip=3, batch_size=batch_size)
    for (a, b), (c, d) in zip(whole[3:], again, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


@pytest.mark.parametrize("batch_size", [4, 10])
def test_every_step_and_seed_augments_in_its_own_way(batch_size):
    noise = [
        tuple((inputs % 1.0)[:, 0])
        for seed in (1, 2)
        for inputs, _ in _noisy_stream(8, seed=seed, batch_size=batch_size)
    ]
    assert len(set(noise)) == 16
