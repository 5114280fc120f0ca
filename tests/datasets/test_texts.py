import codecs
import hashlib
import io
import json
import os
import pickle
import tarfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import _twenty_newsgroups

from tfp_refine import datasets
from tfp_refine.datasets import texts

tfds = pytest.importorskip("tensorflow_datasets")

TEXTS = ["a red fox", "two blue fish", "grüner Tee", "black\nice"]


def write_folder(root, test_class="animal"):
    for split, kind, text in (
        ("train", "animal", TEXTS[0]),
        ("train", "weather", TEXTS[3]),
        ("train", "animal", TEXTS[1]),
        ("test", test_class, TEXTS[2]),
    ):
        folder = root / "mine" / split / kind
        folder.mkdir(parents=True, exist_ok=True)
        number = len([*folder.iterdir()])
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")


def test_a_folder_has_a_file_for_each_text(tmp_path):
    write_folder(tmp_path)
    data = datasets.load_texts("mine", tmp_path)
    assert data.name == "mine"
    assert data.class_names == ("animal", "weather")
    assert [*data.x_train] == [TEXTS[0], TEXTS[1], TEXTS[3]]
    assert [*data.y_train] == [0, 0, 1]
    assert [*data.x_test] == [TEXTS[2]]
    assert [*data.y_test] == [0]
    assert data.y_test.dtype == np.int32


def test_digits_are_texts_of_their_pixels():
    data, raw = datasets.load_texts("digits"), datasets.load_images("digits")
    assert len(data.x_train) == 1437
    for text, image in zip(data.x_test[:3], raw.x_test, strict=False):
        assert [*map(int, text.split())] == image.ravel().tolist()
    np.testing.assert_array_equal(data.y_test, raw.y_test)
    assert data.class_names == tuple("0123456789")


def test_classes_of_the_test_that_are_not_trained_on_are_refused(tmp_path):
    write_folder(tmp_path, test_class="tea")
    with pytest.raises(ValueError, match="animal, weather.*Received: tea"):
        datasets.load_texts("mine", tmp_path)


def test_a_folder_without_test_texts_is_refused(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "mine" / "test" / "animal" / "0.txt").unlink()
    with pytest.raises(ValueError, match="3 and 0 texts of 2 classes"):
        datasets.load_texts("mine", tmp_path)


def write_tfds(data_dir, features, supervised=None):
    def examples(rows):
        for row in range(rows):
            yield {
                key: (
                    TEXTS[row]
                    if isinstance(feature, tfds.features.Text)
                    else row % feature.num_classes
                )
                for key, feature in features.items()
            }

    def dataset(rows):
        return tf.data.Dataset.from_generator(
            lambda: examples(rows),
            output_signature={
                key: tf.TensorSpec(
                    [],
                    tf.string
                    if isinstance(feature, tfds.features.Text)
                    else tf.int64,
                )
                for key, feature in features.items()
            },
        )

    tfds.dataset_builders.store_as_tfds_dataset(
        name="toy_texts",
        version="1.0.0",
        data_dir=data_dir,
        split_datasets={"train": dataset(4), "test": dataset(2)},
        features=tfds.features.FeaturesDict(features),
        disable_shuffling=True,
    )
    if supervised is not None:
        path = data_dir / "toy_texts" / "1.0.0" / "dataset_info.json"
        items = [{"featureKey": key} for key in supervised]
        info = json.loads(path.read_text())
        info["supervisedKeys"] = {"tuple": {"items": items}}
        path.write_text(json.dumps(info))
    return data_dir


COARSE = tfds.features.ClassLabel(names=["ABBR", "DESC"])
FINE = tfds.features.ClassLabel(names=["a", "b", "c"])


@pytest.mark.parametrize(
    ("supervised", "names"),
    [(None, ("ABBR", "DESC")), (("text", "fine"), ("a", "b", "c"))],
)
def test_a_prepared_set_has_the_documented_or_the_coarsest_label(
    tmp_path, supervised, names
):
    write_tfds(
        tmp_path,
        {"text": tfds.features.Text(), "fine": FINE, "coarse": COARSE},
        supervised,
    )
    data = datasets.load_texts("toy_texts", tmp_path)
    assert data.class_names == names
    assert [*data.x_train] == TEXTS
    assert [*data.y_train] == [row % len(names) for row in range(4)]
    assert [*data.x_test] == TEXTS[:2]


def test_a_set_without_a_text_is_refused(tmp_path):
    write_tfds(tmp_path, {"label": COARSE})
    with pytest.raises(ValueError, match=r"one text and a class .* texts \[\]"):
        datasets.load_texts("toy_texts", tmp_path)


class Pickled:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("pickle_was_read",)


def test_a_pickle_is_never_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickled = codecs.encode(pickle.dumps(Pickled()), "zlib_codec")
    (tmp_path / "20news-bydate_py3.pkz").write_bytes(pickled)
    with pytest.raises(ValueError, match="the file 20news-bydate.tar.gz"):
        datasets.load_texts("20newsgroups", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [
        "20news-bydate_py3.pkz"
    ]


def write_newsgroups(folder):
    """Writes an archive; returns its digest."""
    path = folder / "20news-bydate.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for split, rows in (("train", 4), ("test", 2)):
            for row in reversed(range(rows)):
                group = ("alt.atheism", "sci.med")[row % 2]
                name = f"20news-bydate-{split}/{group}/{row}"
                text = f"From: me\n\n{TEXTS[row]}\n> no\nyou said: no\n--\nMe"
                contents = text.encode("latin1")
                info = tarfile.TarInfo(name)
                info.size = len(contents)
                archive.addfile(info, io.BytesIO(contents))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_newsgroups_are_read_from_their_archive(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "_SHA256", write_newsgroups(tmp_path))
    data = datasets.load_texts("20newsgroups", tmp_path)
    assert data.class_names == ("alt.atheism", "sci.med")
    assert [*data.x_train] == [TEXTS[row] for row in (0, 2, 1, 3)]
    assert [*data.y_train] == [0, 0, 1, 1]
    assert [*data.x_test] == TEXTS[:2]
    assert [*data.y_test] == [0, 1]


def test_another_archive_of_newsgroups_is_refused(tmp_path):
    write_newsgroups(tmp_path)
    with pytest.raises(ValueError, match="20news-bydate.tar.gz' is damaged"):
        datasets.load_texts("20newsgroups", tmp_path)


def test_newsgroups_are_downloaded_on_request_only(tmp_path, monkeypatch):
    def get_file(name, origin, cache_dir, cache_subdir):
        assert origin.startswith("https://")
        digest = write_newsgroups(cache_dir / cache_subdir)
        monkeypatch.setattr(texts, "_SHA256", digest)

    monkeypatch.setattr(keras.utils, "get_file", get_file)
    data = datasets.load_texts("20newsgroups", tmp_path, download=True)
    assert len(data.x_train) == 4


@pytest.mark.parametrize(
    "text",
    ["", "h\n\n", "h\n\n--\nname", "h\n\ntext\n\nname\n", "h\n\na\n\nb\n--\nc",
     "no header", "h\n\n\n\ntext"],
)  # fmt: skip
def test_messages_are_stripped_as_by_scikit_learn(text):
    expected = _twenty_newsgroups.strip_newsgroup_footer(
        _twenty_newsgroups.strip_newsgroup_quoting(
            _twenty_newsgroups.strip_newsgroup_header(text)
        )
    )
    assert texts._strip(text) == expected


@pytest.mark.parametrize("name", ["20newsgroups", "trec", "mine", ".."])
def test_sets_that_are_not_there_are_explained(tmp_path, name):
    with pytest.raises(ValueError, match="data_dir|name"):
        datasets.load_texts(name, tmp_path)
