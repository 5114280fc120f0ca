"""The data of one repetition of the comparison."""

from typing import NamedTuple

import numpy as np
from absl import flags

from tfp_refine import datasets
from tfp_refine.experiments import class_data
from tfp_refine.experiments import record
from tfp_refine.experiments import shift_flags

FLAGS = flags.FLAGS


class Regression(NamedTuple):
    """A regression data set, as `class_data.Data` holds one with classes.

    Attributes:
        train: Standardized inputs and targets, `[N, P]` and `[N, 1]`.
        test: Likewise.
        scaler: `datasets.Standardizer` of the targets.
    """

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    scaler: datasets.Standardizer

    num_classes = None
    validation = None

    @property
    def digest(self):
        """Text that tells data sets apart."""
        return record.digest(*self.train, *self.test)


def load(number):
    """Loads the data set that the flags name.

    Args:
        number: Number of the repetition: tables are split anew for each.

    Returns:
        data: `Regression` or `class_data.Data`.

    Raises:
        ValueError: If there is no such set, or flags do not fit it.
        FileNotFoundError: If a folder or a file is missing.
    """
    try:
        return _load(number)
    except ValueError as error:
        raise ValueError(
            f"--dataset={FLAGS.dataset}, as --kind={FLAGS.kind}: {error}"
        ) from error


def _load(number):
    if FLAGS.kind == "regression":
        split = datasets.train_test_split(
            datasets.load_uci(FLAGS.dataset, FLAGS.data_dir),
            number,
            seed=FLAGS.seed,
        )
        return Regression(
            (split.x_train, split.y_train),
            (split.x_test, split.y_test),
            split.y_scaler,
        )
    common = (FLAGS.validation_fraction, FLAGS.seed, shift_flags.shifts())
    if FLAGS.kind == "table":
        return class_data.table(
            FLAGS.dataset, FLAGS.data_dir, *common, number=number
        )
    return class_data.images(
        FLAGS.dataset, FLAGS.data_dir, FLAGS.download, *common
    )
