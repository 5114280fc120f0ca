"""Loads prepared image classification sets of `tensorflow_datasets`."""

import numpy as np
import tensorflow as tf

from tfp_refine.datasets import tfds_builder
from tfp_refine.datasets.image_data import ImageData

_BATCH = 256


def load(name, data_dir=None, download=False):
    """Loads an image classification set (`ImageData`) through TFDS."""
    tfds, builder = tfds_builder.prepared(name, data_dir, download)
    image_key, label_key = _find_features(tfds, builder, name)
    test_split = tfds_builder.find_test_split(builder, name)
    x_train, y_train = _read(tfds, builder, "train", image_key, label_key)
    x_test, y_test = _read(tfds, builder, test_split, image_key, label_key)
    label = builder.info.features[label_key]
    return ImageData.from_arrays(
        name,
        x_train,
        y_train,
        x_test,
        y_test,
        num_classes=label.num_classes,
        # Without names, TFDS counts: "0", "1", ...
        class_names=tuple(label.names),
    )


def _find_features(tfds, builder, name):
    """Finds the image and the class label by their kind."""
    features = builder.info.features
    image_kind, label_kind = tfds.features.Image, tfds.features.ClassLabel
    supervised = builder.info.supervised_keys or (None, None)
    keys = []
    for key, kind in zip(supervised, (image_kind, label_kind), strict=False):
        # `Video` and such are no subclasses; a segmentation map is an image.
        candidates = [
            other
            for other, feature in sorted(features.items())
            if isinstance(feature, kind)
        ]
        if isinstance(key, str) and key in candidates:
            candidates = [key]
        keys.append(candidates)
    if [len(candidates) for candidates in keys] != [1, 1]:
        raise ValueError(
            f"Data set {name!r} must be an image classification, with one "
            f"image and one class label. Received: images {keys[0]}, class "
            f"labels {keys[1]} among the features {sorted(features)}"
        )
    return keys[0][0], keys[1][0]


def _read(tfds, builder, split, image_key, label_key):
    """Reads a split in the order of its files, into one array each.

    TFDS itself fails where there are not `num_examples`.
    """
    where = f"Split {split!r} of data set {builder.name!r}"
    num_examples = builder.info.splits[split].num_examples
    images, labels, start = None, np.zeros([num_examples], np.int64), 0
    try:
        dataset = builder.as_dataset(
            split=split,
            shuffle_files=False,
            # The arrays are the cache.
            read_config=tfds.ReadConfig(try_autocache=False),
        ).map(lambda example: (example[image_key], example[label_key]))
        for x, y in dataset.batch(_BATCH).as_numpy_iterator():
            if images is None:
                images = np.empty([num_examples, *x.shape[1:]], x.dtype)
            if x.shape[1:] != images.shape[1:]:
                raise ValueError(
                    f"{where} must have images of one size. Received: "
                    f"{images.shape[1:]} and {x.shape[1:]}"
                )
            images[start : start + len(x)] = x
            labels[start : start + len(x)] = y
            start += len(x)
    except tf.errors.OpError as error:
        if "Cannot batch" in error.message:
            raise ValueError(
                f"{where} must have images of one size. "
                f"Received: {tfds_builder.shorten(error)}"
            ) from error
        raise ValueError(
            f"{where} must have whole files in '{builder.data_path}'. "
            f"Received, after {start} of {num_examples} examples: "
            f"{tfds_builder.shorten(error)}"
        ) from error
    return images, labels
