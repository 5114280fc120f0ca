"""The classification data of the Laplace experiment, split and scaled."""

import math
from typing import NamedTuple

import numpy as np
from absl import flags

from tfp_refine import datasets
from tfp_refine.experiments import class_table_split
from tfp_refine.experiments import image_evaluation
from tfp_refine.experiments import laplace_text
from tfp_refine.experiments import record
from tfp_refine.experiments import run_flags

FLAGS = flags.FLAGS
_TURNED, _SHUFFLED = "turned", "shuffled"


class Data(NamedTuple):
    """A classification data set as a model takes it.

    Attributes:
        train: Inputs and labels, `[N, ...]` and `[N]`.
        validation: Likewise; split off the training set.
        test: Likewise.
        num_classes: Number of classes.
        unseen: Dict from a name to inputs that are not of this set.
        shifted: Function that yields a name, a strength and test inputs, as
            `image_evaluation.shifted_sets`; of the first `shift_examples`.
    """

    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    num_classes: int
    unseen: dict[str, np.ndarray]
    shifted: object

    @property
    def digest(self):
        """Text that tells data sets apart, without unseen ones."""
        return record.digest(*self.train, *self.validation, *self.test)


def load():
    """Loads the data set that the flags name.

    Returns:
        data: `Data`.

    Raises:
        ValueError: If there is no such set, or flags do not fit it.
        FileNotFoundError: If a folder or a file is missing.
    """
    loaders = {"images": _images, "table": _table, "text": _text}
    data = loaders[FLAGS.kind]()
    for part in ("train", "validation", "test"):
        if not len(getattr(data, part)[1]):
            raise ValueError(
                f"--dataset={FLAGS.dataset} leaves no {part} examples. "
                f"Received: --validation_fraction={FLAGS.validation_fraction}"
            )
    return data


def _images():
    raw = datasets.load_images(FLAGS.dataset, FLAGS.data_dir, FLAGS.download)
    split = datasets.standardized_images(
        raw, FLAGS.validation_fraction, FLAGS.seed
    )

    def scale(images):
        if FLAGS.scaling == "standardized":
            return datasets.standardize_pixels(images, split.scaler)
        divisor = np.float32(255.0 if FLAGS.scaling == "unit" else 1.0)
        return images.astype(np.float32) / divisor

    def unseen(name):
        if name == _TURNED:
            return scale(datasets.rotate_images(raw.x_test, 90.0))
        if name == _SHUFFLED:
            return scale(_shuffled(raw.x_test))
        other = datasets.load_images(name, FLAGS.data_dir, FLAGS.download)
        return scale(datasets.match_images(other.x_test, raw.x_test.shape[1:]))

    shifts = (
        run_flags.numbers("rotations", float),
        (),
        FLAGS.corruptions,
        FLAGS.seed,
    )
    if FLAGS.rotations or FLAGS.corruptions:
        image_evaluation.check_shifts(raw.x_test, *shifts)

    def shifted():
        few = raw.x_test[: FLAGS.shift_examples]
        for name, strength, images in image_evaluation.shifted_sets(
            few, *shifts
        ):
            yield name, strength, scale(images)

    return Data(
        (scale(raw.x_train[split.train_index]), split.y_train),
        (scale(raw.x_train[split.validation_index]), split.y_validation),
        (scale(raw.x_test), split.y_test),
        raw.num_classes,
        _unseen(unseen, (_TURNED, _SHUFFLED)),
        shifted,
    )


def _table():
    table = datasets.load_class_table(FLAGS.dataset, FLAGS.data_dir)
    split = class_table_split.split(table, 0, FLAGS.seed)
    x_train, x_test = split.x_train, split.x_test
    if FLAGS.scaling == "none":
        x_train, x_test = (
            table.features[rows].astype(np.float32)
            for rows in (split.train_index, split.test_index)
        )
    train, validation = _split_off(x_train, table.labels[split.train_index])
    return Data(
        train,
        validation,
        (x_test, table.labels[split.test_index]),
        len(table.class_names),
        _unseen(lambda name: _shuffled(x_test), (_SHUFFLED,), others=False),
        _no_shifts,
    )


def _text():
    texts = _load_texts(FLAGS.dataset)
    (x, y), (x_validation, y_validation) = _split_off(
        texts.x_train, texts.y_train
    )
    words = laplace_text.vectorizer(x, FLAGS.vocabulary, FLAGS.sequence_length)
    x_test = words(texts.x_test)

    def unseen(name):
        if name == _SHUFFLED:
            return _shuffled(x_test)
        return words(_load_texts(name).x_test)

    return Data(
        (words(x), y),
        (words(x_validation), y_validation),
        (x_test, texts.y_test),
        len(texts.class_names),
        _unseen(unseen, (_SHUFFLED,)),
        _no_shifts,
    )


def _load_texts(name):
    return datasets.load_texts(name, FLAGS.data_dir, FLAGS.download)


def _split_off(x, y):
    """Splits validation examples off, at random."""
    order = np.random.default_rng([FLAGS.seed, 4]).permutation(len(y))
    count = math.ceil(FLAGS.validation_fraction * len(y))
    validation, train = order[:count], order[count:]
    return (x[train], y[train]), (x[validation], y[validation])


def _unseen(load_one, known, others=True):
    """Loads what --unseen names."""
    for name in FLAGS.unseen:
        if name == FLAGS.dataset or not (others or name in known):
            raise ValueError(
                f"--unseen must name some of {', '.join(known)}"
                f"{', or other data sets' if others else ''}. "
                f"Received: {','.join(FLAGS.unseen)}"
            )
    return {name: load_one(name) for name in FLAGS.unseen}


def _shuffled(x):
    """Takes each number of an example from another example."""
    rng = np.random.default_rng([FLAGS.seed, 5])
    columns = x.reshape(len(x), -1)
    return rng.permuted(columns, axis=0).reshape(x.shape)


def _no_shifts():
    return ()
