"""Predictive distributions of a Gaussian posterior of weights."""

import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import posteriors
from tfp_refine.math import logistic_normal

PREDICTIVES = {
    "mc": "exact: draws of the weights, whose average converges",
    "linearized": (
        "exact for a last layer: draws of the Gaussian outputs, for each input "
        "alone; for all layers, those of the linearized network"
    ),
    "probit": (
        "approximate: closed form; with more than two classes, covariances of "
        "the logits are left out"
    ),
    "mean_field": "approximate: closed form, with covariances of the logits",
}
_CLOSED_FORMS = ("probit", "mean_field")
# Numbers that are held at once: 64 MiB of float64.
_MAX_NUMBERS = 2**23
# Where an input's features are all 0, its outputs are sure.
_MIN_VARIANCE = 1e-200


def check(method, likelihood):
    """Checks the name of a predictive.

    Args:
        method: One of `PREDICTIVES`.
        likelihood: Likelihood.

    Raises:
        ValueError: If there is none, or it is for classification alone.
    """
    _validation.one_of("method", method, PREDICTIVES)
    if likelihood.kind == "regression" and method in _CLOSED_FORMS:
        raise ValueError(
            f"`method={method!r}` is for classification. The outputs of a "
            "regression are Gaussian: see `output_moments`."
        )


def predict(laplace, inputs, num_examples, method, num_samples, seed, average):
    """Predicts from the Gaussian of the linearized outputs.

    Args:
        laplace: Fitted `Laplace`.
        inputs: What its network takes, `[N, ...]` (or nested).
        num_examples: `N`.
        method: One of `PREDICTIVES`, but "mc".
        num_samples: `S`, draws of "linearized".
        seed: Integer.
        average: Whether draws are averaged.

    Returns:
        draws: As `Laplace.predict` returns them.
    """
    if method == "probit":
        blocks = [
            probit(mean, variance)[tf.newaxis]
            for mean, variance in _marginals(laplace, inputs, num_examples)
        ]
    elif method == "mean_field":
        blocks = [
            mean_field(mean, tf.matmul(root, root, transpose_b=True))[
                tf.newaxis
            ]
            for mean, root in gaussian_outputs(laplace, inputs, num_examples)
        ]
    else:
        rng = np.random.default_rng(seed)
        blocks = [
            _draw(laplace.likelihood, mean, root, num_samples, rng, average)
            for mean, root in gaussian_outputs(laplace, inputs, num_examples)
        ]
    return np.concatenate(blocks, axis=1).astype(
        laplace.network.dtype.as_numpy_dtype
    )


def gaussian_outputs(laplace, inputs, num_examples):
    """Yields the Gaussians of the linearized outputs, block by block.

    Args:
        laplace: Fitted `Laplace`.
        inputs: What its network takes, `[N, ...]` (or nested).
        num_examples: `N`.

    Yields:
        mean: float64, `[B, C]`.
        root: Roots `R` of the covariances `R R^T`, float64, `[B, C, K]`.
    """
    for mean, block in _means(
        laplace, inputs, num_examples, laplace.numbers_of_root()
    ):
        yield mean, laplace.output_root(block)


def output_marginals(laplace, inputs, num_examples):
    """Computes the moments of each linearized output.

    Args:
        laplace: Fitted `Laplace`.
        inputs: What its network takes, `[N, ...]` (or nested).
        num_examples: `N`.

    Returns:
        mean: float64 array, `[N, C]`.
        variance: float64 array, `[N, C]`.
    """
    blocks = zip(*_marginals(laplace, inputs, num_examples), strict=True)
    return tuple(np.concatenate(block) for block in blocks)


def _marginals(laplace, inputs, num_examples):
    for mean, block in _means(
        laplace, inputs, num_examples, laplace.numbers_of_variance()
    ):
        yield mean, laplace.output_variance(block)


def _means(laplace, inputs, num_examples, numbers):
    """Yields outputs at the mean, and inputs, in blocks of bounded memory."""
    size = max(1, _MAX_NUMBERS // numbers)
    for begin in range(0, num_examples, size):
        block = posteriors.take(inputs, slice(begin, begin + size))
        yield laplace.mean_outputs(block), block


def _draw(likelihood, mean, root, num_samples, rng, average):
    """Draws predictions, `[S, B, C]` or, averaged, `[1, B, C]`."""
    root = square_root(root)
    total = []
    for _ in range(num_samples):
        noise = rng.standard_normal(mean.shape)
        outputs = mean + tf.linalg.matvec(root, noise)
        draw = likelihood.predictions(outputs)
        if average and total:
            total[0] += draw
        else:
            total.append(draw)
    return np.stack(total) / (num_samples if average else 1)


def square_root(root):
    """Turns roots of covariances into square ones.

    Args:
        root: `[B, C, K]`.

    Returns:
        root: `[B, C, C]`.
    """
    size = root.shape[1]
    if root.shape[2] == size:
        return root
    covariance = tf.matmul(root, root, transpose_b=True)
    # Rounding, relative to the largest variance of each input.
    largest = tf.reduce_max(tf.linalg.diag_part(covariance), axis=-1)
    largest = tf.maximum(largest, _MIN_VARIANCE)
    jitter = 1e-12 * largest[:, tf.newaxis, tf.newaxis]
    return tf.linalg.cholesky(
        covariance + jitter * tf.eye(size, dtype=root.dtype)
    )


def probit(mean, variance):
    """Approximates class probabilities; one output is a logit of two classes.

    Args:
        mean: Of the logits, `[B, C]`.
        variance: Of each, `[B, C]`.

    Returns:
        probs: `[B, C]`, or `[B, 2]` if `C` is 1.
    """
    if mean.shape[-1] > 1:
        return tf.exp(logistic_normal.multiclass_probit(mean, variance))
    logit = logistic_normal.probit(mean, variance)
    return tf.concat([tf.sigmoid(-logit), tf.sigmoid(logit)], axis=-1)


def mean_field(mean, covariance):
    """Approximates class probabilities, likewise.

    Args:
        mean: Of the logits, `[B, C]`.
        covariance: Of them, `[B, C, C]`.

    Returns:
        probs: `[B, C]`, or `[B, 2]` if `C` is 1.
    """
    if mean.shape[-1] > 1:
        return tf.exp(logistic_normal.mean_field(mean, covariance))
    return probit(mean, covariance[..., 0])
