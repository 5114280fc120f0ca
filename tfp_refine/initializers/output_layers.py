"""Which layers make the outputs of a model."""

from typing import NamedTuple

import numpy as np

from tfp_refine.initializers import initializer
from tfp_refine.initializers import traversal


class Made(NamedTuple):
    """The outputs that a layer makes, perhaps with others.

    Attributes:
        columns: Their indices, in the order of the layer's units.
        parts: How many layers are added up in them.
    """

    columns: np.ndarray
    parts: int


def find(model, calls, x, num_outputs):
    """Finds the layers whose units are outputs of a model.

    They have no effect on the inputs of other layers, and on as many outputs as
    they have units, in their order: all of them, or some, as a head of its own
    or before a layer that adds the noise.

    Args:
        model: `keras.Model` with one output, `[B, D]`.
        calls: `Call`s of its layers, in their order.
        x: Inputs of the model, `[N, ...]` (or nested).
        num_outputs: `D`.

    Returns:
        made: Dict from the `id` of a layer to its `Made`.
    """
    found = {}
    for index, call in enumerate(calls):
        columns = _columns(
            model, call.layer, calls[index + 1 :], x, num_outputs
        )
        if columns is not None:
            found[id(call.layer)] = columns
    return {
        key: Made(
            columns,
            sum(np.array_equal(columns, other) for other in found.values()),
        )
        for key, columns in found.items()
    }


def _columns(model, layer, later, x, num_outputs):
    """Returns the indices of the outputs that a layer makes, or `None`."""
    num_units = initializer.num_units(layer)
    if num_units > num_outputs:
        return None
    others = [call.layer for call in later]
    effect = traversal.effect(model, layer, others, x)
    if effect.layers or len(effect.outputs) == 0:
        return None
    if num_units == num_outputs:
        return np.arange(num_outputs)
    return effect.outputs if len(effect.outputs) == num_units else None
