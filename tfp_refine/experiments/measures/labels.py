"""Classifiers that are trained on labels without a meaning."""

import dataclasses

import keras
import numpy as np

from tfp_refine import metrics
from tfp_refine.experiments import bench
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.measures import fits
from tfp_refine.experiments.systems import repetition


def randomize(
    data: dataset.Dataset, size: int, seed: int | list[int]
) -> dataset.Dataset:
    """Draws labels of some training images, and of as many test images.

    Raises:
        ValueError: If there are fewer training images.
    """
    largest = len(data.train[1])
    if size > largest:
        raise ValueError(
            f"--random_label_examples must be at most {largest}, the training "
            f"images. Received: --random_label_examples={size}"
        )
    rng = np.random.default_rng(seed)
    train, test = (
        (x[:size], rng.integers(data.num_classes, size=len(x[:size])))
        for x, _ in (data.train, data.test)
    )
    return dataclasses.replace(data, train=train, test=test)


def memory(subject: bench.Subject) -> tuple[dict, dict]:
    """Measures the `"train_accuracy"`, from memory, and `"test_accuracy"`."""
    return _accuracies(subject.data, subject.draws), {}


def observe(
    fit: repetition.Fit, model: keras.Model, entry: dict[str, float]
) -> dict[str, float]:
    """Measures as `fits.observe` and `memory` after a segment of a training."""
    accuracies = _accuracies(fit.data, fit.predictive(model))
    return fits.observe(fit, model, entry) | accuracies


def _accuracies(data, draws):
    return {
        f"{name}_accuracy": metrics.accuracy(y, draws(x), from_logits=True)
        for name, (x, y) in (("train", data.train), ("test", data.test))
    }


MEMORY = bench.Measure("memory", memory, ("num_samples",))
