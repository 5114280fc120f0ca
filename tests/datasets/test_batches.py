import numpy as np

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


def test_few_examples_are_one_batch():
    for rows in _rows(seed=1, count=3, batch_size=10):
        np.testing.assert_array_equal(rows, np.arange(10))
