import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import small_streams
from tfp_refine.functional import data
from tfp_refine.functional import resumable
from tfp_refine.functional import sources
from tfp_refine.functional import streams
from tfp_refine.functional import train

N = 23
X, Y = np.arange(2.0 * N).reshape(N, 2), np.arange(N)
BATCHES = small_streams.Batches


@pytest.fixture
def small(monkeypatch):
    """Blocks of 2 or 3 examples of 16 bytes, windows of 12."""
    small_streams.shrink(monkeypatch)


def stream(*arrays, **options):
    found, count = streams.examples(BATCHES(*(arrays or (X, Y)), **options))
    assert isinstance(found, streams.Stream)
    assert found.num_examples == count
    return found


def first(parts):
    return np.asarray(parts[0])


# Sources that are streams.


def test_only_data_that_memory_does_not_hold_are_streamed(monkeypatch):
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(5)
    unknown = dataset.filter(lambda x, y: True)
    (held, count), (expected, _) = (
        streams.examples(dataset),
        data.examples(X, Y),
    )
    assert count == N
    tf.nest.map_structure(np.testing.assert_array_equal, held, expected)
    monkeypatch.setattr(streams, "HELD_BYTES", 16 * N - 1)
    for batches in (dataset, unknown, BATCHES(X, Y)):
        assert isinstance(streams.examples(batches)[0], streams.Stream)
    # Arrays are in memory already.
    assert isinstance(streams.examples(X, Y)[0], tuple)
    monkeypatch.setattr(streams, "HELD_BYTES", 16 * N)
    for batches in (unknown, BATCHES(X, Y)):
        assert isinstance(streams.examples(batches)[0], tuple)


def test_a_dataset_that_says_its_size_is_not_read_in_vain(small):
    read = []
    dataset = tf.data.Dataset.range(10).map(
        lambda n: tf.py_function(
            lambda n: (
                (read.append(int(n)) or n * tf.ones([3, 1], n.dtype),) * 2
            ),
            [n],
            [tf.int64] * 2,
        )
    )
    dataset = dataset.map(lambda x, y: (tf.ensure_shape(x, [3, 1]), y))
    assert streams.examples(dataset)[1] == 30
    assert len(read) < 15


# Passes.


@pytest.mark.parametrize("size", [1, 4, 7, N, 100])
@pytest.mark.parametrize("batch", [1, 3, N])
def test_blocks_make_up_the_data(small, size, batch):
    begin = 0
    for rows, (x, y) in stream(size=batch).blocks(size):
        assert rows == slice(begin, min(begin + size, N))
        begin = rows.stop
        assert x.dtype == "float32"
        np.testing.assert_array_equal(x, X[rows])
        np.testing.assert_array_equal(y, Y[rows])
    assert begin == N


@pytest.mark.parametrize("begin", [0, 1, 22, 23, 60])
def test_windows_follow_one_another_from_anywhere(small, begin):
    windows = itertools.islice(stream().windows(5, begin), 10)
    found = np.concatenate([y for _, y in windows])
    np.testing.assert_array_equal(found, (begin + np.arange(50)) % N)


def test_examples_are_gathered_in_their_order(small):
    found = stream()
    for rows in ([20, 1, 7], [3], [5, 5, 0], np.arange(N)[::-1]):
        x, y = found.gather(np.array(rows))
        np.testing.assert_array_equal(x, X[rows])
        np.testing.assert_array_equal(y, Y[rows])


def test_a_stream_of_a_function_is_held_if_it_fits(small, monkeypatch):
    found = stream().map(lambda x, y: (np.asarray(x) + y[:, None], y))
    assert found.hold() is found
    monkeypatch.setattr(streams, "HELD_BYTES", 1000)
    done = []
    x, y = found.hold(done.append)
    np.testing.assert_array_equal(x, X + Y[:, np.newaxis])
    np.testing.assert_array_equal(y, Y)
    assert done == sorted(done)
    assert done[-1] == N
    assert streams.specs(found)[0].shape.as_list() == [None, 2]


def test_nested_inputs_and_text_are_streamed(small):
    words = np.array([f"word {i}" for i in range(N)])
    dataset = tf.data.Dataset.from_tensor_slices(({"a": X, "b": words}, Y))
    found, _ = streams.examples(dataset.batch(4))
    text = found.pin()
    for rows, (x, _) in found.blocks(5):
        np.testing.assert_array_equal(x["a"], X[rows])
        assert [w.decode() for w in x["b"].numpy()] == list(words[rows])
    x, _ = found.gather(np.array([4, 2]))
    assert x["b"].numpy().tolist() == [b"word 4", b"word 2"]
    assert streams.examples(dataset.batch(7))[0].pin() == text


def test_inputs_are_fitted_in_each_pass(small):
    found, _ = streams.examples(
        BATCHES(X, Y), fit=lambda block: (block[0] + 1.0, block[1])
    )
    np.testing.assert_array_equal(first(found.head), (X + 1.0)[:2])
    for _ in range(2):
        for rows, (x, _) in found.blocks(4):
            np.testing.assert_array_equal(x, X[rows] + 1.0)


# Checks.


def test_all_data_are_checked_before_anything_is_computed(small):
    x = X.copy()
    x[-1, 0] = np.inf
    with pytest.raises(ValueError, match="`x` must be finite"):
        streams.examples(BATCHES(x, Y))
    seen = []
    streams.examples(BATCHES(X, Y), check=lambda block: seen.extend(block[1]))
    assert list(map(int, seen)) == list(range(N))
    seen = []
    streams.examples(X, Y, check=lambda block: seen.append(len(block[1])))
    assert seen == [N]


def test_weights_count_over_all_blocks(small):
    weight = np.zeros(N)
    weight[-1] = 2.0
    found = stream(X, Y, weight)
    assert len(found.specs) == 3
    np.testing.assert_array_equal(found.gather(np.arange(N))[2], weight)
    with pytest.raises(ValueError, match="must not be 0 for all.*23 weights"):
        stream(X, Y, 0.0 * weight)
    with pytest.raises(ValueError, match="none is negative"):
        stream(X, Y, -weight)
    found, _ = streams.examples(BATCHES(X, Y % 2), class_weight={1: 3.0})
    np.testing.assert_array_equal(
        found.gather(np.arange(N))[2], np.where(Y % 2, 3.0, 1.0)
    )


def test_inputs_alone_are_refused(small):
    with pytest.raises(ValueError, match=r"must yield \(x, y\)"):
        streams.examples(tf.data.Dataset.from_tensor_slices(X).batch(3))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lambda number: np.arange(N - number), "23 examples, and later 22"),
        (
            lambda number: np.arange(10**5 if number else N) % N,
            "more than the 23",
        ),
    ],
)
def test_passes_have_as_many_examples(small, rows, message):
    # The first finds out that memory does not hold them.
    found = stream(rows=lambda number: rows(max(0, number - 1)))
    with pytest.raises(ValueError, match=message):
        list(found.blocks(5))


def test_an_endless_pass_is_noticed(small, monkeypatch):
    class Endless(BATCHES):
        def __iter__(self):
            once = super().__iter__()
            return once if self.passes < 3 else itertools.cycle(once)

    found, _ = streams.examples(Endless(X, Y))
    list(found.blocks(5))
    with pytest.raises(ValueError, match="as many examples in each pass.*23"):
        list(found.blocks(5))
    monkeypatch.setattr(sources, "_MAX_BATCHES", 50)
    unknown = Endless(X, Y)
    unknown.passes = 3
    with pytest.raises(ValueError, match="has not ended after 51 batches"):
        streams.examples(unknown)
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(3).repeat()
    with pytest.raises(ValueError, match="endless"):
        streams.examples(dataset)


def test_shapes_stay_as_they_are(small):
    class Changing(BATCHES):
        def __iter__(self):
            for x, y in super().__iter__():
                yield (x if self.passes < 3 else x[:, :1]), y

    found, _ = streams.examples(Changing(X, Y))
    with pytest.raises(ValueError, match="one structure, dtype and shape"):
        list(found.blocks(5))


def test_the_order_may_change_unless_it_is_pinned(small):
    def shuffled(number):
        return np.random.default_rng(number).permutation(N)

    found = stream(rows=shuffled)
    passes = [
        np.concatenate([y for _, (_, y) in found.blocks(5)]) for _ in range(2)
    ]
    assert list(passes[0]) != list(passes[1])
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(N))
    found.pin()
    with pytest.raises(ValueError, match="same order in each pass"):
        list(found.blocks(5))


def test_a_pin_is_of_examples_in_order(small):
    text = stream().pin()
    assert stream(size=7).pin() == text
    assert stream(X + 1.0, Y).pin() != text
    assert stream(X, Y, rows=lambda _: np.arange(N)[::-1]).pin() != text


# Feeds.


def test_data_in_memory_serve_all_steps():
    batches = train.Batches(N, 4)
    feed = streams.feed((X, Y), batches, 100)
    assert feed.batches is batches
    end, part = feed.part(3, 99, visit=2)
    assert end == 99
    assert part[0] is X


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 3, 4, 10, 50])
@pytest.mark.parametrize("batch_size", [1, 4, 11, 30])
def test_windows_serve_all_steps(small, steps, batch_size):
    feed = streams.feed(stream(), train.Batches(N, batch_size), steps)
    size = feed.batches.num_examples
    assert feed.batches.size == min(batch_size, N)
    per_window = size // feed.batches.size
    assert per_window == feed.batches.per_epoch
    begin, seen = 0, []
    while begin < steps:
        end, (_, y) = feed.part(begin, steps)
        assert end == min(begin + per_window, steps)
        assert len(y) == size
        assert feed.part(end - 1, end)[1][1] is y
        seen.extend(np.asarray(y))
        begin = end
    # One example after another, pass after pass.
    np.testing.assert_array_equal(seen, np.arange(len(seen)) % N)


def test_a_window_is_the_same_in_another_process(small):
    def make():
        return streams.feed(stream(), train.Batches(N, 2), 50)

    feed, visits = make(), []
    for visit in range(3):
        begin = 0
        while begin < 50:
            end, (_, y) = feed.part(begin, 50, visit)
            visits.append(((visit, begin, end), np.asarray(y)))
            begin = end
    assert len({tuple(y) for _, y in visits}) > 20
    for (visit, begin, end), expected in visits[::7]:
        found = make().part(begin + 1, 50, visit)
        assert found[0] == end
        np.testing.assert_array_equal(found[1][1], expected)
    (visit, begin, _), expected = visits[1]
    np.testing.assert_array_equal(feed.part(begin, 50, visit)[1][1], expected)


def test_examples_with_replacement_need_memory(small):
    with pytest.raises(
        ValueError, match="`bootstrap=True` needs data that fit"
    ):
        streams.feed(stream(), train.Batches(N, 4, bootstrap=True), 3)


def test_blocks_of_data_are_alike_held_or_not(small):
    held = data.examples(X, Y)[0]
    for one, other in zip(
        streams.blocks(held, 6), streams.blocks(stream(), 6), strict=True
    ):
        assert one[0] == other[0]
        keras.tree.map_structure(
            np.testing.assert_array_equal, one[1], other[1]
        )
    assert streams.num_examples(held) == streams.num_examples(stream()) == N
    assert streams.specs(held) == streams.specs(stream())


def test_a_checkpoint_of_another_stream_says_how_it_differs(small, tmp_path):
    def opened(*arrays):
        data = {"data": stream(*arrays)}
        return resumable.open_checkpoint(tmp_path, "work", {}, data)

    opened().save({})
    assert opened().load() == {}
    with pytest.raises(ValueError, match="data: '23 .* there, '24 examples"):
        opened(np.ones((24, 2)), np.ones(24)).load()
