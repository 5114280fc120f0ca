"""Learned Gaussian priors, and their divergences."""

import numpy as np

from tfp_refine import layers
from tfp_refine import regularizers


def softplus_inverse(scale):
    """Computes the raw value of `scale`, before softplus."""
    return np.log(np.expm1(scale))


def kl_given(posterior, raw, regularizer=None):
    """Computes the KL with the prior of standard deviation softplus(raw)."""
    regularizer = regularizer or regularizers.EmpiricalBayesKL()
    return regularizer(*posterior, (raw,))


def build(regularizer, **kwargs):
    """Builds a layer whose kernel and bias share one regularizer."""
    layer = layers.DenseReparameterization(
        4,
        kernel_regularizer=regularizer,
        bias_regularizer=regularizer,
        num_train_examples=10,
        **kwargs,
    )
    layer.build((None, 3))
    return layer
