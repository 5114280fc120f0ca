"""The data sets that initializers are compared on, split and standardized."""

from typing import NamedTuple

import numpy as np
from absl import flags

from tfp_refine import datasets
from tfp_refine import losses
from tfp_refine import metrics
from tfp_refine import posteriors
from tfp_refine.experiments import class_table_split
from tfp_refine.experiments import other_images
from tfp_refine.experiments import record

FLAGS = flags.FLAGS
# Examples computed at a time.
_BLOCK = 500


class Regression(NamedTuple):
    """A split of a regression data set.

    Attributes:
        split: `RegressionSplit`.
    """

    split: datasets.RegressionSplit
    num_outputs = None
    error_name = "RMSE"

    @property
    def train(self):
        """Standardized inputs and targets, `[N, P]` and `[N, 1]`."""
        return self.split.x_train, self.split.y_train

    def evaluate(self, model, seed):
        """Computes `"error"` and `"mnll"` on test data, in original units."""
        split = self.split
        draws = posteriors.predict(
            model, split.x_test, FLAGS.num_samples, seed=seed
        )
        loc, scale = losses.HeteroscedasticGaussianNLL().loc_and_scale(draws)
        loc, scale = np.asarray(loc), np.asarray(scale)
        nll = metrics.gaussian_negative_log_likelihood(split.y_test, loc, scale)
        return {
            "error": metrics.root_mean_squared_error(
                split.y_test_original, split.y_scaler.inverse(loc)
            ),
            "mnll": -split.y_scaler.inverse_log_likelihood(-nll),
        }


class Classification(NamedTuple):
    """A split of a classification data set.

    Attributes:
        train: Standardized inputs and labels, `[N, ...]` and `[N]`.
        test: Likewise.
        unseen: Standardized images of other kinds, or `None`.
        num_outputs: Number of classes.
    """

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    unseen: np.ndarray | None
    num_outputs: int
    error_name = "error"

    def evaluate(self, model, seed):
        """Computes `"error"`, a rate, and `"mnll"`, on test data."""
        x, y = self.test
        logits = self._predict(model, x, seed)
        return {
            "error": 1.0 - metrics.accuracy(y, logits, from_logits=True),
            "mnll": metrics.negative_log_likelihood(
                y, logits, from_logits=True
            ),
        }

    def entropies(self, model, seed):
        """Computes predictive entropies, a dict of lists; nats."""
        if self.unseen is None:
            return {}
        return {
            name: metrics.predictive_entropy(
                self._predict(model, x, seed), from_logits=True
            ).tolist()
            for name, x in (("test", self.test[0]), ("unseen", self.unseen))
        }

    def _predict(self, model, x, seed):
        return posteriors.predict(
            model, x, FLAGS.num_samples, seed=seed, batch_size=_BLOCK
        )


class Source:
    """The data set that the flags name.

    Attributes:
        digest: Short text that tells data sets apart.

    Raises:
        ValueError: If there is no such set, or no such splits of it.
    """

    def __init__(self):
        self._unseen = None
        if FLAGS.kind == "images":
            data = datasets.load_images(
                FLAGS.dataset, FLAGS.data_dir, FLAGS.download
            )
            arrays = data.x_train, data.y_train, data.x_test, data.y_test
        elif FLAGS.kind == "regression":
            data = datasets.load_uci(FLAGS.dataset, FLAGS.data_dir)
            arrays = data.features, data.target
        else:
            data = datasets.load_class_table(FLAGS.dataset, FLAGS.data_dir)
            arrays = data.features, data.labels
        self._data = data
        if FLAGS.kind == "images":
            scaler = datasets.standardized_images(data, seed=FLAGS.seed).scaler
            self._unseen = _unseen_images(data, scaler)
            arrays += (self._unseen,)
        self.digest = record.digest(*arrays)
        self.split(0)

    def split(self, number):
        """Makes a train-test split.

        Images have one; other numbers stand for other seeds.

        Args:
            number: Number of the split, from 0.

        Returns:
            case: `Regression` or `Classification`.
        """
        data = self._data
        if FLAGS.kind == "regression":
            return Regression(
                datasets.train_test_split(data, number, seed=FLAGS.seed)
            )
        if FLAGS.kind == "classification":
            split = class_table_split.split(data, number, FLAGS.seed)
            return Classification(
                (split.x_train, data.labels[split.train_index]),
                (split.x_test, data.labels[split.test_index]),
                None,
                len(data.class_names),
            )
        images = datasets.standardized_images(data, seed=FLAGS.seed)
        return Classification(
            (images.x_train, images.y_train),
            (images.x_test, images.y_test),
            self._unseen,
            data.num_classes,
        )


def _unseen_images(data, scaler):
    """Returns the images that entropies are compared on."""
    if FLAGS.unseen_dataset is not None:
        return other_images.load(
            "unseen_dataset",
            FLAGS.unseen_dataset,
            FLAGS.dataset,
            data.x_test,
            scaler,
            FLAGS.data_dir,
            FLAGS.download,
        )
    turned = np.rot90(data.x_test, axes=(1, 2))
    if turned.shape != data.x_test.shape:
        raise ValueError(
            "Images that are not square cannot be turned: name an "
            f"--unseen_dataset. Received: images {data.x_test.shape[1:]}"
        )
    return datasets.standardize_pixels(np.ascontiguousarray(turned), scaler)
