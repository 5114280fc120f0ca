import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from tfp_refine.functional import data
from tfp_refine.functional import sources

X, Y = np.arange(14.0).reshape(7, 2), np.arange(7)
BATCHES = [(X[:3], Y[:3]), (X[3:6], Y[3:6]), (X[6:], Y[6:])]


class Batched(keras.utils.PyDataset):
    """A dataset of given batches, which says it has some number of them."""

    def __init__(self, batches=BATCHES, num_batches=3):
        super().__init__()
        self._batches, self._num_batches = batches, num_batches

    def __getitem__(self, index):
        return self._batches[index]

    @property
    def num_batches(self):
        return self._num_batches


class Loader:
    """An iterable that is neither Keras' nor TensorFlow's."""

    def __init__(self, batches=BATCHES):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def _dataset(*parts):
    return tf.data.Dataset.from_tensor_slices(parts).batch(3)


RE_ITERABLE = {
    "dataset": lambda: _dataset(X, Y),
    "py_dataset": Batched,
    "loader": Loader,
}
ONCE = {
    "generator": lambda: (batch for batch in BATCHES),
    "iterator": lambda: iter(BATCHES),
    "lists": lambda: ([x, y, None] for x, y in BATCHES),
}


@pytest.mark.parametrize("kind", RE_ITERABLE)
def test_batches_can_be_read_again(kind):
    found = sources.source(RE_ITERABLE[kind]())
    assert isinstance(found, sources.Batches)
    for _ in range(2):
        batches = list(found)
        assert [len(x) for x, _ in batches] == [3, 3, 1]
        assert all(x.dtype == "float32" for x, _ in batches)
        np.testing.assert_array_equal(
            np.concatenate([x for x, _ in batches]), X
        )
        np.testing.assert_array_equal(
            np.concatenate([y for _, y in batches]), Y
        )
        assert found.num_examples == 7
    assert sources.source(found) is found


@pytest.mark.parametrize("kind", ONCE)
def test_what_can_be_read_once_is_read_into_memory(kind):
    x, y = sources.source(ONCE[kind]())
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize("kind", [*RE_ITERABLE, *ONCE])
def test_examples_of_all_kinds_are_equal(kind):
    found, num_examples = data.examples({**RE_ITERABLE, **ONCE}[kind]())
    expected, _ = data.examples(X, Y)
    assert num_examples == 7
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_arrays_stay_arrays():
    frame = pd.DataFrame(X, columns=["a", "b"])
    x, y, weight = sources.source([frame, tf.ones([7])], pd.Series(Y), Y + 1.0)
    np.testing.assert_array_equal(x[0], X)
    np.testing.assert_array_equal(y, Y)
    assert weight is not None
    (only,) = sources.source(X)
    assert only is X


def test_inputs_must_be_given():
    with pytest.raises(ValueError, match="`x` must be given"):
        list(data.blocks(None, 3))
    with pytest.raises(ValueError, match="`sample_weight` needs `y`"):
        sources.source(X, sample_weight=Y)


def test_text_in_batches_is_kept():
    text = np.array(["a", "b", "c", "d", "e"])
    dataset = _dataset({"text": text, "number": np.arange(5)}, np.arange(5))
    (x, _), num_examples = data.examples(dataset)
    assert num_examples == 5
    assert x["text"].numpy().tolist() == [b"a", b"b", b"c", b"d", b"e"]
    (x, _), _ = data.examples(text, np.arange(5))
    assert x.dtype == tf.string


def test_a_generator_is_not_held_for_blocks():
    read = []

    def generate():
        for number in range(100):
            read.append(number)
            yield (np.full((2, 3), number),)

    blocks = data.blocks(generate(), 1)
    rows, block = next(blocks)
    assert (rows, block.shape) == (slice(0, 2), (2, 3))
    assert len(read) == 1


def test_blocks_may_differ_in_length():
    lengths = (np.ones((2, 3)), np.ones((1, 5)))
    shapes = [tuple(block.shape) for _, block in data.blocks(iter(lengths), 9)]
    assert shapes == [(2, 3), (1, 5)]
    with pytest.raises(ValueError, match=r"one shape.*\(3,\) and \(5,\)"):
        data.inputs(iter(lengths))


def _endless():
    while True:
        yield BATCHES[0]


class WithoutEnd(Batched):
    """Says nothing of its end."""

    @property
    def num_batches(self):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda: _dataset(X, Y).repeat(), "must end.*endless; leave out"),
        (lambda: Batched(num_batches=None), "must end.*PyDataset Batched that"),
        (WithoutEnd, "must end.*PyDataset WithoutEnd that is endless"),
        (_endless, r"must end.*a generator \(generator\) that has not ended"),
        (
            lambda: tf.data.Dataset.from_generator(
                _endless,
                output_signature=(
                    tf.TensorSpec([None, 2]),
                    tf.TensorSpec([None]),
                ),
            ),
            "must end.*a tf.data.Dataset that has not ended",
        ),
        (lambda: Batched(num_batches=4), "failed at its batch 4 of 4"),
        (
            lambda: _dataset(X, Y).apply(
                tf.data.experimental.assert_cardinality(4)
            ),
            "Dataset, failed at its batch 4 of 4: .*expected to contain 4",
        ),
        (lambda: Batched(num_batches=0), "must not be empty: it yields no"),
        (lambda: iter([]), r"a generator \(list_iterator\), must not be empty"),
        (lambda: _dataset(X), "must yield.*inputs alone"),
        (lambda: iter([None]), "`x` must yield inputs. Received: None"),
        (lambda: iter([(X, Y, Y, Y)]), r"must yield \(x, y\).*4 parts"),
        (
            lambda: iter([(X, Y), (X, Y[:5])]),
            r"same number.*\[7\] in x, \[5\] in y",
        ),
        (
            lambda: iter([(X, Y), (X[:, :1], Y)]),
            "All batches of a generator.*one structure.*batch 2",
        ),
        (
            lambda: iter([(X, Y), (X, Y + 0.5)]),
            "dtype.*int64.*float32.*batch 2",
        ),
        (lambda: iter([(X, Y), ([X, X], Y)]), "one structure.*batch 2"),
        (lambda: iter([(X, Y), (X, Y, Y)]), "one structure.*batch 2"),
        (
            lambda: iter([(X, Y), (X * np.nan, Y)]),
            "`x` must be finite.*14 of 14.*in batch 2 of a generator",
        ),
        (
            lambda: iter([(np.ma.masked_less(X, 3), Y)]),
            "masked array.*in batch 1 of a generator",
        ),
        (
            lambda: iter([(X[0], Y[0])]),
            "`y` must hold.*elements must be batches",
        ),
    ],
)
def test_bad_batches_are_refused(source, message, monkeypatch):
    monkeypatch.setattr(sources, "_MAX_BATCHES", 20)
    with pytest.raises(ValueError, match=message):
        data.examples(source())


def test_a_source_that_may_be_endless_is_warned_of_long_before(monkeypatch):
    monkeypatch.setattr(sources, "_MANY_BATCHES", 2)
    monkeypatch.setattr(sources, "_MAX_BATCHES", 20)
    message = "not ended after 2 batches.*limit it"
    with (
        pytest.warns(UserWarning, match=message) as caught,
        pytest.raises(ValueError, match="not ended after 21 batches"),
    ):
        data.examples(_endless())
    assert len(caught) == 1
    data.examples(Batched())  # says how many it has


def test_a_source_larger_than_memory_is_refused(monkeypatch):
    monkeypatch.setattr(sources, "_memory", lambda: 2**16)
    with pytest.raises(ValueError, match="has not ended after 683 batches"):
        data.examples(_endless())


def test_a_source_that_shrinks_is_refused():
    loader = Loader()
    found = sources.source(loader)
    list(found)
    loader.batches = BATCHES[:2]
    with pytest.raises(ValueError, match="same examples.*7 examples.*later 6"):
        list(found)


def test_a_source_that_changes_its_shapes_between_passes_is_refused():
    loader = Loader()
    found = sources.source(loader)
    list(found)
    loader.batches = [(X[:, :1], Y)]
    with pytest.raises(ValueError, match="All batches of an iterable.*batch 1"):
        list(found)


@pytest.mark.parametrize("kind", [*RE_ITERABLE, *ONCE])
def test_targets_come_with_the_batches(kind):
    for name in ("y", "sample_weight"):
        with pytest.raises(ValueError, match=f"`{name}` must be None when `x`"):
            sources.source({**RE_ITERABLE, **ONCE}[kind](), **{name: Y})


@pytest.mark.parametrize(
    "x", [X, [X], (X, X), {"a": X}, pd.DataFrame(X), tf.ones(3), "text", 3, {1}]
)
def test_arrays_are_not_batches(x):
    assert not sources.is_batched(x)
