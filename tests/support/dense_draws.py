"""Draws of the outputs of one dense unit, and their exact moments."""

import numpy as np

NUM_DRAWS = 20000
KERNEL_LOC = np.array([0.5, -1.0, 2.0])
KERNEL_SCALE = np.array([0.4, 1.0, 2.0])
BIAS_LOC, BIAS_SCALE = 0.3, 0.7

# A variance of 0.5, one of 73 and all that lies between.
INPUTS = np.array([[0.0, 0.0, 0.0], [1.0, -2.0, 0.5], [-3.0, 0.5, 4.0]])


def draw(make_layer, x=INPUTS, **arguments):
    """Draws outputs of one dense unit at the inputs `x`.

    All come from one call: its units are independent draws, for all of them
    have the same posterior.

    Args:
        make_layer: Class of the layer.
        x: Inputs, `[B, ..., 3]`.
        **arguments: Arguments of the layer.

    Returns:
        draws: `[S, B, ...]`.
    """
    layer = make_layer(NUM_DRAWS, num_train_examples=1, seed=3, **arguments)
    layer.build(x.shape)
    kernel, *bias = layer.variational_weights
    kernel.assign(
        loc=np.repeat(KERNEL_LOC[:, None], NUM_DRAWS, axis=1),
        scale=np.repeat(KERNEL_SCALE[:, None], NUM_DRAWS, axis=1),
    )
    for weight in bias:
        weight.assign(
            loc=np.full(NUM_DRAWS, BIAS_LOC),
            scale=np.full(NUM_DRAWS, BIAS_SCALE),
        )
    outputs = np.asarray(layer(x.astype("float32")), "float64")
    return np.moveaxis(outputs, -1, 0)


def mean(x=INPUTS):
    """Returns the exact mean at each input, `[B, ...]`."""
    return x @ KERNEL_LOC + BIAS_LOC


def covariance(x=INPUTS):
    """Returns the covariance of outputs by one draw of weights, `[B, B]`.

    Args:
        x: Inputs, `[B, 3]`.
    """
    return (x * KERNEL_SCALE**2) @ x.T + BIAS_SCALE**2


def standardized_products(draws, x=INPUTS):
    """Returns products of standardized outputs at pairs of inputs.

    Args:
        draws: `[S, B]`.
        x: Inputs, `[B, 3]`.

    Returns:
        products: `[S, B, B]`; their mean is the correlation.
    """
    z = (draws - mean(x)) / np.sqrt(np.diag(covariance(x)))
    return z[:, :, None] * z[:, None, :]


def correlation(x=INPUTS):
    """Returns the correlation that belongs to `covariance`, `[B, B]`."""
    stddev = np.sqrt(np.diag(covariance(x)))
    return covariance(x) / (stddev[:, None] * stddev)
