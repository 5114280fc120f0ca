"""A Bayesian linear model of a layer, in NumPy."""

import keras
import numpy as np

from tfp_refine import initializers
from tfp_refine import layers


def iblm(**switches):
    """Returns I-BLM with other switches, such as `center`."""
    return type("Switched", (initializers.IBLM,), switches)


def float32(array):
    """Rounds an array as Keras does, and returns doubles."""
    return np.asarray(array, np.float32).astype(np.float64)


def with_ones(x):
    """Appends a column of ones."""
    return np.concatenate([x, np.ones_like(x[..., :1])], axis=-1)


def posterior(x, y, noise, prior):
    """Solves the regressions of each column of targets.

    Args:
        x: `[N, D]`.
        y: `[N, M]`.
        noise: Variances, broadcastable to `[N, M]`.
        prior: Variances, broadcastable to `[D]`.

    Returns:
        mean: `[D, M]`.
        precision: Matrices, `[M, D, D]`.
    """
    size = x.shape[1]
    noise = np.broadcast_to(noise, y.shape)
    prior_precision = np.diag(1.0 / np.broadcast_to(prior, [size]))
    precision = np.stack(
        [
            (x / column[:, np.newaxis]).T @ x + prior_precision
            for column in noise.T
        ]
    )
    weighted = [x.T @ column for column in (y / noise).T]
    mean = [
        np.linalg.solve(*pair) for pair in zip(precision, weighted, strict=True)
    ]
    return np.stack(mean, axis=-1), precision


def inverse_diagonals(precision):
    """Computes `1 / diag(A)` of each matrix, `[D, M]`."""
    return 1.0 / np.stack([np.diag(a) for a in precision], axis=-1)


def marginal_variances(precision):
    """Computes `diag(inv(A))` of each matrix, `[D, M]`."""
    return np.stack([np.diag(np.linalg.inv(a)) for a in precision], axis=-1)


def class_targets(one_hot, concentration=0.01):
    """Computes targets and variances of logits, centered, `[N, C]`."""
    alpha = one_hot + concentration
    variance = np.log(1.0 + 1.0 / alpha)
    loc = np.log(alpha) - variance / 2.0
    return loc - np.average(loc, weights=1.0 / variance), variance


def read(layer):
    """Returns means and variances of a layer's columns, the bias last."""
    kernel, *bias = layer.variational_weights
    parts = [layer.columns(kernel.mean(kernel.loc.dtype))]
    parts.append(layer.columns(kernel.scale) ** 2)
    parts = [np.asarray(part, np.float64) for part in parts]
    for weight in bias:
        rows = [weight.loc, weight.scale**2]
        rows = [np.asarray(row, np.float64)[np.newaxis] for row in rows]
        parts = [np.concatenate(pair) for pair in zip(parts, rows, strict=True)]
    return parts


def dense_model(
    size, units, make_layer=layers.DenseReparameterization, **arguments
):
    """Returns a model of one linear layer, in double precision."""
    arguments = {"dtype": "float64", "name": "linear", **arguments}
    inputs = keras.Input((size,))
    return keras.Model(inputs, make_layer(units, **arguments)(inputs))


def still(**arguments):
    """Returns arguments of a layer whose draws are its means."""
    return {
        "kernel_posterior": layers.FixedVariancePosterior(1e-9),
        "bias_posterior": layers.FixedVariancePosterior(1e-9),
        **arguments,
    }
