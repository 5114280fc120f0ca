import os
import pathlib
import socket
import sys

import numpy as np
import pytest
import tensorflow as tf

from tfp_refine.datasets import load_images

tfds = pytest.importorskip("tensorflow_datasets")

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (300, 5, 4, 3), dtype=np.uint8)
LABELS = RNG.integers(0, 3, 300)
IMAGE = tfds.features.Image(shape=(None, None, 3))
LABEL = tfds.features.ClassLabel(names=["cat", "dog", "eel"])


def write_set(
    data_dir,
    name="toy_images",
    splits=("train", "test"),
    features=None,
    columns=None,
    shapes=(),
):
    """Prepares a set of 300 training and 20 other images, without network."""
    features = features or {"image": IMAGE, "label": LABEL}
    columns = columns or {"image": PIXELS, "label": LABELS}

    def examples(rows):
        for row in range(rows):
            example = {key: column[row] for key, column in columns.items()}
            if row < len(shapes):
                example["image"] = np.zeros(shapes[row], np.uint8)
            yield example

    def dataset(rows):
        signature = {
            key: tf.TensorSpec(
                [None] * np.ndim(column[0]), np.asarray(column[0]).dtype
            )
            for key, column in columns.items()
        }
        return tf.data.Dataset.from_generator(
            lambda: examples(rows), output_signature=signature
        )

    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        version="1.2.0",
        data_dir=data_dir,
        split_datasets={
            split: dataset(300 if split == "train" else 20) for split in splits
        },
        features=tfds.features.FeaturesDict(features),
        disable_shuffling=True,
    )
    return data_dir


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return write_set(tmp_path_factory.mktemp("tfds"))


@pytest.mark.parametrize("name", ["toy_images", "toy_images:1.2.0"])
def test_prepared_set_is_loaded_as_it_was_written(prepared, name):
    data = load_images(name, prepared)
    # More images than are read at a time, in their order.
    np.testing.assert_array_equal(data.x_train, PIXELS)
    np.testing.assert_array_equal(data.y_train, LABELS)
    np.testing.assert_array_equal(data.x_test, PIXELS[:20])
    np.testing.assert_array_equal(data.y_test, LABELS[:20])
    assert data.x_train.dtype == np.uint8
    assert data.num_classes == 3
    assert data.class_names == ("cat", "dog", "eel")
    assert data.name == name


def test_a_prepared_set_needs_no_network(prepared, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("reached for the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    load_images("toy_images", prepared, download=True)


def test_features_are_found_by_kind_and_the_rest_is_left(tmp_path):
    write_set(
        tmp_path,
        features={
            "picture": IMAGE,
            "id": tfds.features.Text(),
            "kind": LABEL,
            "boxes": tfds.features.Sequence(tf.int64),
        },
        columns={
            "picture": PIXELS,
            "id": [b"x" * (row % 3) for row in range(300)],
            "kind": LABELS,
            "boxes": [np.arange(row % 4) for row in range(300)],
        },
    )
    data = load_images("toy_images", tmp_path)
    np.testing.assert_array_equal(data.x_train, PIXELS)
    np.testing.assert_array_equal(data.y_test, LABELS[:20])


def test_validation_stands_in_for_test(tmp_path):
    write_set(tmp_path, splits=("train", "validation"))
    assert len(load_images("toy_images", tmp_path).x_test) == 20


@pytest.mark.slow
def test_test_split_comes_before_validation(tmp_path):
    write_set(tmp_path, splits=("test", "train", "validation"))
    folder = tmp_path / "toy_images/1.2.0"
    for file in folder.glob("*validation.tfrecord*"):
        file.unlink()
    assert len(load_images("toy_images", tmp_path).x_test) == 20


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        (("train",), "'train' and 'test' .*Received: 'train'"),
        (("test",), "'train' and 'test' .*Received: 'test'"),
        (("train", "extra"), "Received: 'extra', 'train'"),
    ],
)
def test_missing_split(tmp_path, splits, message):
    write_set(tmp_path, splits=splits)
    with pytest.raises(ValueError, match=message):
        load_images("toy_images", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("features", "columns", "message"),
    [
        (
            {"image": IMAGE, "label": tf.int64},
            {"image": PIXELS, "label": LABELS},
            r"images \['image'\], class labels \[\]",
        ),
        (
            {"text": tfds.features.Text(), "label": LABEL},
            {"text": [b"a"] * 300, "label": LABELS},
            r"images \[\], class labels \['label'\]",
        ),
        (
            {"image": IMAGE, "a": LABEL, "b": LABEL},
            {"image": PIXELS, "a": LABELS, "b": LABELS},
            r"class labels \['a', 'b'\]",
        ),
    ],
)
def test_a_set_that_is_no_image_classification(
    tmp_path, features, columns, message
):
    write_set(tmp_path, features=features, columns=columns)
    with pytest.raises(ValueError, match="image classification.*" + message):
        load_images("toy_images", tmp_path)


# The odd one within the images that are read together, and after them.
@pytest.mark.slow
@pytest.mark.parametrize("row", [7, 256])
def test_images_of_differing_sizes(tmp_path, row):
    shapes = [(5, 4, 3)] * row + [(6, 4, 3)] * (300 - row)
    write_set(tmp_path, shapes=shapes)
    with pytest.raises(ValueError, match="'train'.*images of one size"):
        load_images("toy_images", tmp_path)


def record_file(data_dir, split):
    (path,) = pathlib.Path(data_dir).rglob(f"*-{split}.tfrecord*")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "test"])
def test_truncated_file(tmp_path, split):
    path = record_file(write_set(tmp_path), split)
    os.truncate(path, path.stat().st_size - 5)
    with pytest.raises(
        ValueError, match=f"'{split}'.*whole files in .*toy_images.*truncated"
    ):
        load_images("toy_images", tmp_path)


def test_file_cut_between_two_images(tmp_path):
    path = record_file(write_set(tmp_path), "test")
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records[:-1]:
            writer.write(record)
    with pytest.raises(ValueError, match="'test'.*whole files.*19"):
        load_images("toy_images", tmp_path)


def test_missing_file(tmp_path):
    record_file(write_set(tmp_path), "test").unlink()
    with pytest.raises(ValueError, match="'test'.*whole files in .*No such"):
        load_images("toy_images", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["dataset_info.json", "features.json"])
def test_damaged_description(tmp_path, file):
    write_set(tmp_path)
    (tmp_path / "toy_images/1.2.0" / file).write_text("{")
    with pytest.raises(ValueError, match="'toy_images' must be one that TFDS"):
        load_images("toy_images", tmp_path)


def test_known_set_that_is_not_prepared_says_what_to_do(tmp_path):
    with pytest.raises(
        ValueError,
        match=(
            f"'mnist' must be prepared in '{tmp_path}/mnist/.*`data_dir`.*"
            "--data_dir.*download=True.*versions found: none"
        ),
    ):
        load_images("mnist", tmp_path)


def test_other_prepared_versions_are_named(tmp_path):
    old = tmp_path / "mnist" / "0.9.0"
    old.mkdir(parents=True)
    (old / "dataset_info.json").write_text("{}")
    with pytest.raises(ValueError, match="versions found: 0.9.0"):
        load_images("mnist", tmp_path)


def test_download_without_a_network_fails_at_once(tmp_path, monkeypatch):
    def no_network(host, *arguments):
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr("urllib.request.getproxies", dict)
    with pytest.raises(
        ValueError,
        match="no network.*--data_dir.*cs.toronto.edu: Name or service",
    ):
        load_images("cifar10", tmp_path, download=True)


def test_download_that_fails_says_what_to_do(tmp_path, monkeypatch):
    def fail(self, **options):
        raise ConnectionError("reset by peer")

    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments: [])
    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)
    with pytest.raises(
        ValueError,
        match="'cifar10' must be downloaded.*--data_dir.*reset by peer",
    ):
        load_images("cifar10", tmp_path, download=True)


def test_unknown_name_offers_a_close_one(tmp_path):
    with pytest.raises(
        ValueError,
        match="svhn_cropped.*name='cifar1O'.*Did you mean 'cifar10'",
    ):
        load_images("cifar1O", tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mnist/nothing", "'mnist/nothing'.*nothing"),
        ("mnist:9.9.9", "'mnist:9.9.9'.*9.9.9"),
        ("huggingface:mnist", "`name` must be that of a data set"),
        ("../mnist", "`name` must be that of a data set"),
        ("", "`name` must be that of a data set"),
        (None, "`name` must be that of a data set.*None"),
    ],
)
def test_bad_name(tmp_path, name, message):
    with pytest.raises(ValueError, match=message):
        load_images(name, tmp_path)


def test_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ValueError, match=r"pip install 'tfp_refine\[tfds\]'"):
        load_images("mnist")
