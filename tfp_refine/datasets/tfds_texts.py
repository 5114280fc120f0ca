"""Loads prepared text classification sets of `tensorflow_datasets`."""

import tensorflow as tf

from tfp_refine.datasets import tfds_builder


def load(name, data_dir=None, download=False):
    """Loads `(x_train, y_train, x_test, y_test, class_names)` through TFDS."""
    tfds, builder = tfds_builder.prepared(name, data_dir, download)
    text, label = _find_features(tfds, builder, name)
    splits = ("train", tfds_builder.find_test_split(builder, name))
    parts = [_read(tfds, builder, split, text, label) for split in splits]
    return *parts[0], *parts[1], builder.info.features[label].names


def _find_features(tfds, builder, name):
    """Finds the text and the class label."""
    features = builder.info.features
    texts, labels = (
        [key for key, found in sorted(features.items()) if found_is(found)]
        for found_is in (
            lambda found: isinstance(found, tfds.features.Text),
            lambda found: isinstance(found, tfds.features.ClassLabel),
        )
    )
    wanted = builder.info.supervised_keys or (None, None)
    texts = [wanted[0]] if wanted[0] in texts else texts
    labels = [wanted[-1]] if wanted[-1] in labels else labels
    if len(texts) != 1 or not labels:
        raise ValueError(
            f"Data set {name!r} must be a text classification, with one text "
            f"and a class label. Received: texts {texts}, class labels "
            f"{labels} among the features {sorted(features)}"
        )
    return texts[0], min(labels, key=lambda key: features[key].num_classes)


def _read(tfds, builder, split, text, label):
    """Reads a split in the order of its files."""
    try:
        examples = [
            (example[text].decode("utf-8", "replace"), int(example[label]))
            for example in builder.as_dataset(
                split=split,
                shuffle_files=False,
                read_config=tfds.ReadConfig(try_autocache=False),
            ).as_numpy_iterator()
        ]
    except tf.errors.OpError as error:
        raise ValueError(
            f"Split {split!r} of data set {builder.name!r} must have whole "
            f"files in '{builder.data_path}'. Received: "
            f"{tfds_builder.shorten(error)}"
        ) from error
    return [x for x, _ in examples], [y for _, y in examples]
