"""Classifiers that are trained on labels without a meaning."""

import dataclasses

import numpy as np

from tfp_refine import metrics
from tfp_refine.experiments import bench
from tfp_refine.experiments.measures import fits


def randomize(data, size, seed):
    """Draws labels of some training images, and of as many test images.

    Args:
        data: `dataset.Dataset` of a classification.
        size: Number of training images.
        seed: Integer or list of integers.

    Returns:
        data: `dataset.Dataset`.

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


def memory(subject):
    """Measures what a classifier remembers, and what it makes of other images.

    Args:
        subject: `bench.Subject`.

    Returns:
        metrics: Dict of the `"train_accuracy"` and the `"test_accuracy"`.
        details: Empty dict.
    """
    return _accuracies(subject.data, subject.draws), {}


def observe(fit, model, entry):
    """Measures a classifier after a segment of its training.

    Args:
        fit: `repetition.Fit`.
        model: The model.
        entry: The segment's entry of the history.

    Returns:
        metrics: What `fits.observe` and `memory` measure.
    """
    accuracies = _accuracies(fit.data, fit.predictive(model))
    return fits.observe(fit, model, entry) | accuracies


def _accuracies(data, draws):
    return {
        f"{name}_accuracy": metrics.accuracy(y, draws(x), from_logits=True)
        for name, (x, y) in (("train", data.train), ("test", data.test))
    }


MEMORY = bench.Measure("memory", memory, ("num_samples",))
