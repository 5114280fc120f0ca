"""Texts of folders, as systems take them."""

import numpy as np
import pytest

from tfp_refine.experiments.data import load
from tfp_refine.experiments.harness import fields

WORDS = {"up": ("high", "rise", "lift"), "down": ("low", "fall", "sink")}


def write(root, name, extra=()):
    rng = np.random.default_rng(0)
    for split, count in (("train", 20), ("test", 10)):
        for kind, own in WORDS.items():
            folder = root / name / split / kind
            folder.mkdir(parents=True)
            for number in range(count):
                text = " ".join(rng.choice([*own, "and", *extra], size=5))
                (folder / f"{number}.txt").write_text(text)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts")
    write(path, "mine")
    write(path, "other", ("zebra",))
    return path


def load_texts(root, **options):
    return load.load(
        fields.Bench(
            **{
                "dataset": "mine", "kind": "texts", "data_dir": str(root),
                "sequence_length": 8, "validation_fraction": 0.1,
            }
            | options
        )
    )  # fmt: skip


def test_texts_of_a_folder_are_numbers_of_words(root):
    data = load_texts(root, unseen=("shuffled", "other"))
    assert data.num_classes == 2
    assert not data.is_regression
    for part, count in (("train", 36), ("validation", 4), ("test", 20)):
        x, y = getattr(data, part)
        assert x.shape == (count, 8)
        assert x.dtype == np.int32
        assert np.all(x[:, 5:] == 0)
        assert set(y) <= {0, 1}
    x, y = data.test
    # Words tell the classes; "and" is in both.
    shared = set(x[y == 0].flat) & set(x[y == 1].flat)
    assert len(shared) == 2
    shuffled = data.unseen["shuffled"]
    np.testing.assert_array_equal(np.sort(shuffled, 0), np.sort(x, 0))
    assert np.any(data.unseen["other"] == 1)  # no word of the training set
    assert not np.any(x == 1)
    assert not list(data.shifted())


def test_the_vocabulary_is_that_of_the_training_texts(root):
    data = load_texts(root, vocabulary=4)
    assert max(part[0].max() for part in (data.train, data.test)) == 3
    assert data.digest != load_texts(root).digest


def test_texts_are_neither_turned_nor_their_own_unseen_set(root):
    for options, expected in (
        ({"unseen": ("turned",)}, "--dataset=mine"),
        ({"unseen": ("mine",)}, "--unseen must name some of shuffled, or"),
        ({"rotations": (30.0,)}, "--rotations has no meaning"),
        ({"validation_fraction": 0.99}, "leaves no train examples"),
    ):
        with pytest.raises(ValueError, match=expected):
            load_texts(root, **options)


def test_texts_are_known_by_their_names():
    for name in ("trec", "20newsgroups", "ag_news_subset", "imdb_reviews"):
        assert load.kind_of(fields.Bench(dataset=name)) == "texts"
