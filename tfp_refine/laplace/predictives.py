"""Predictive distributions of a Gaussian posterior of weights."""

import tensorflow as tf

from tfp_refine import functional
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
CLOSED_METHODS = tuple(name for name in PREDICTIVES if name != "mc")
# Numbers that are held at once: 64 MiB of float64.
_MAX_NUMBERS = 2**23
# Where an input's features are all 0, its outputs are sure.
_MIN_VARIANCE = 1e-200


def probabilities(laplace, inputs, method, num_samples, rng):
    """Computes class probabilities `[N, C]`, float64, in closed form.

    Inputs are those of the view; `method` is one of `CLOSED_METHODS`, of which
    "linearized" draws `num_samples` outputs by `rng`.
    """
    if method != "linearized" and laplace.likelihood.kind == "multilabel":
        found = (  # of each label alone: covariances do not matter
            tf.sigmoid(logistic_normal.probit(mean, variance))
            for mean, variance in laplace.output_variances(inputs)
        )
    elif method == "probit":
        found = (
            probit(mean, variance)
            for mean, variance in laplace.output_variances(inputs)
        )
    elif method == "mean_field":
        found = (
            mean_field(mean, tf.matmul(root, root, transpose_b=True))
            for mean, root in laplace.output_roots(inputs)
        )
    else:
        found = (
            _average(laplace.likelihood, mean, root, num_samples, rng)
            for mean, root in laplace.output_roots(inputs)
        )
    return tf.concat(list(found), axis=0).numpy()


def weight_draws(laplace, inputs, num_samples, seed):
    """Averages class probabilities `[N, C]` over the draws of "mc".

    This is `predict_proba` for inputs that the view has computed.
    """
    total = 0.0
    count = functional.data.num_examples(inputs)
    at_once = max(1, _MAX_NUMBERS // (count * laplace.view.num_outputs))
    for draws in laplace._draw(num_samples, seed, at_once):
        outputs = laplace.view.outputs(draws.params, inputs, draws.fixed)
        total += tf.reduce_sum(laplace.likelihood.predictions(outputs), axis=0)
    return (total / num_samples).numpy()


def _average(likelihood, mean, root, num_samples, rng):
    """Averages predictions over draws of the outputs, `[B, C]`."""
    root, total = square_root(root), 0.0
    for _ in range(num_samples):
        noise = rng.standard_normal(mean.shape)
        outputs = mean + tf.linalg.matvec(root, noise)
        total += likelihood.predictions(outputs)
    return total / num_samples


def square_root(root):
    """Turns roots of covariances, `[B, C, K]`, into square ones."""
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
    """Approximates class probabilities, `[B, C]`, from logits' moments.

    Mean and variance are `[B, C]`; one logit is of the second of two classes.
    """
    if mean.shape[-1] > 1:
        return tf.exp(logistic_normal.multiclass_probit(mean, variance))
    logit = logistic_normal.probit(mean, variance)
    return tf.concat([tf.sigmoid(-logit), tf.sigmoid(logit)], axis=-1)


def mean_field(mean, covariance):
    """Approximates them from mean `[B, C]` and covariance `[B, C, C]`."""
    if mean.shape[-1] > 1:
        return tf.exp(logistic_normal.mean_field(mean, covariance))
    return probit(mean, covariance[..., 0])
