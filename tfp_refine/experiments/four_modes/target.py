"""A posterior with one weight and four modes, and bounds by integration."""

import keras
import numpy as np
from scipy import stats

from tfp_refine import layers

CENTERS = 1.15 * np.array([-1.5, -0.5, 0.5, 1.5])
HEIGHTS = np.array([0.7, 1.0, 0.8, 0.6])
WIDTH = 0.17
FLOOR = 0.015
GRID = np.linspace(-6.0, 6.0, 24001)

# The Gaussian with the largest bound, by numerical integration.
BEST_LOC, BEST_SCALE = -0.0545, 0.8704


def likelihood(w):
    """Computes the likelihood `[...]` of a weight `[...]`."""
    bumps = np.exp(-0.5 * ((np.asarray(w)[..., None] - CENTERS) / WIDTH) ** 2)
    return FLOOR + bumps @ HEIGHTS


def negative_log_likelihood(y_true, y_pred):
    """The same as a Keras loss, of a model that outputs its weight."""
    distance = (y_pred - keras.ops.cast(CENTERS, y_pred.dtype)) / WIDTH
    bumps = keras.ops.exp(-0.5 * keras.ops.square(distance))
    heights = keras.ops.cast(HEIGHTS, y_pred.dtype)
    return -keras.ops.log(FLOOR + keras.ops.sum(heights * bumps, axis=-1))


def mean_field_model():
    """Builds a model with one weight, at the best Gaussian posterior."""
    inputs = keras.Input((1,))
    layer = layers.DenseReparameterization(
        1, use_bias=False, num_train_examples=1
    )
    model = keras.Model(inputs, layer(inputs))
    model.compile(loss=negative_log_likelihood)
    (weight,) = layer.variational_weights
    weight.assign(loc=[[BEST_LOC]], scale=[[BEST_SCALE]])
    return model


def data():
    """Returns the one example: the model's output is its weight."""
    return np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32)


def log_evidence():
    """Computes `log Z` by numerical integration."""
    return float(np.log(integral(likelihood(GRID) * stats.norm.pdf(GRID))))


def posterior():
    """Computes the posterior's density on the grid, `[G]`."""
    joint = likelihood(GRID) * stats.norm.pdf(GRID)
    return joint / integral(joint)


def bound(density):
    """Computes the bound of a posterior density `[G]` on the grid."""
    joint = np.log(likelihood(GRID)) + stats.norm.logpdf(GRID)
    inside = density > 0
    value = np.zeros_like(density)
    value[inside] = density[inside] * (joint[inside] - np.log(density[inside]))
    return float(integral(value))


def mixture(loc, scale):
    """Computes the density of a mixture of `[M]` Gaussians, `[G]`."""
    loc, scale = (np.reshape(values, (-1, 1)) for values in (loc, scale))
    return np.mean(stats.norm.pdf(GRID, loc, scale), axis=0)


def integral(values):
    """Integrates values on the grid, `[G]`."""
    return np.trapezoid(values, GRID)
