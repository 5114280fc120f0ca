"""The pure function of a model that refinement optimizes."""

import functools

from tfp_refine import functional
from tfp_refine import layers


def sampling_forward(model, layout):
    """Makes a model a pure function in which layers draw their weights.

    Args:
        model: Built `keras.Model`.
        layout: Its `WeightLayout`.

    Returns:
        forward: `Forward`, traced alike inside and outside `mean_weights`.
    """
    scope = functools.partial(layers.mean_weights, active=False)
    return functional.Forward(model, layout, scope=scope)
