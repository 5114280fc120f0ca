"""Layers with posteriors of every family but the mean-field one."""

import numpy as np
import pytest

from tfp_refine import layers

NUM_TRAIN_EXAMPLES = 50
NUM_DRAWS = 4000

# Of the kernel and of the bias; no argument is the default one.
FAMILIES = {
    "fixed_variance": (
        layers.FixedVariancePosterior(0.6),
        layers.FixedVariancePosterior(0.9),
    ),
    "k_tied": (
        layers.KTiedPosterior(3, initial_scale=0.5, seed=3),
        layers.KTiedPosterior(1, initial_scale=0.6, seed=4),
    ),
    "low_rank": (
        layers.LowRankPosterior(3, initial_scale=0.5, seed=3),
        layers.LowRankPosterior(2, initial_scale=0.6, seed=4),
    ),
}
DENSE = (
    layers.DenseReparameterization,
    layers.DenseLocalReparameterization,
    layers.DenseFlipout,
)
CONV2D = (
    layers.Conv2DReparameterization,
    layers.Conv2DLocalReparameterization,
    layers.Conv2DFlipout,
)
every_family = pytest.mark.parametrize("family", FAMILIES)
every_dense = pytest.mark.parametrize("make_layer", DENSE)


def make(make_layer, family, **arguments):
    """Returns a layer, not built."""
    kernel, bias = FAMILIES[family]
    return make_layer(
        **{
            "kernel_posterior": kernel,
            "bias_posterior": bias,
            "num_train_examples": NUM_TRAIN_EXAMPLES,
            "seed": 1,
            **arguments,
        }
    )


def spread(layer):
    """Assigns random values of order one, and returns the layer."""
    rng = np.random.default_rng(8)
    for weight in layer.variational_weights:
        for variable in (weight.loc, *weight.scale_weights):
            variable.assign(rng.normal(size=variable.shape))
    return layer


def built(make_layer, family, input_shape, **arguments):
    """Returns a layer whose posterior is nowhere near its start."""
    layer = make(make_layer, family, **arguments)
    layer.build((None, *input_shape))
    return spread(layer)


def dense(make_layer, family, **arguments):
    """Returns a dense layer of 4 inputs and 3 units, as `built`."""
    return built(make_layer, family, (4,), units=3, **arguments)
