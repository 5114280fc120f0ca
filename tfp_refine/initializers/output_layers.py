"""Finds the layers that make the outputs of a model."""

from typing import NamedTuple

import numpy as np

from tfp_refine import functional
from tfp_refine import layers
from tfp_refine.initializers import initializer

# Number of examples that show the effects of a layer.
_PROBE = 8


class Made(NamedTuple):
    """Outputs that a layer makes, in the order of its units (`columns`).

    Summed over as many layers as `parts`.
    """

    columns: np.ndarray
    parts: int


def find(model, calls, x, num_outputs):
    """Finds the layers whose units are outputs `[B, num_outputs]` of a model.

    They have no effect on the inputs of other layers, and on as many outputs as
    they have units, in their order: all of them, or some, as a head of its own
    or before a layer that adds the noise. Returns a dict from `id` to `Made`.
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
    columns, is_hidden = _effect(model, layer, others, x)
    if is_hidden or len(columns) == 0:
        return None
    if num_units == num_outputs:
        return np.arange(num_outputs)
    return columns if len(columns) == num_units else None


def _effect(model, layer, others, x):
    """Finds the outputs that change when the weights of a layer do.

    Returns the indices of such outputs, and whether inputs of `others` change.
    """
    variable = layer.bias if layer.use_bias else layer.kernel
    value = variable.numpy()
    moved = value + np.random.default_rng(0).uniform(0.5, 1.5, value.shape)
    x = functional.data.take(x, slice(_PROBE))
    states = [
        v for v in model.variables if functional.seeds.is_generator_state(v)
    ]
    before = [state.numpy() for state in states]
    try:
        outputs, inputs = _run(model, others, x)
        variable.assign(moved)
        new_outputs, new_inputs = _run(model, others, x)
    finally:
        for state, saved in zip(
            (variable, *states), (value, *before), strict=True
        ):
            state.assign(saved)
    is_hidden = any(
        not np.array_equal(*pair)
        for pair in zip(inputs, new_inputs, strict=True)
    )
    return np.flatnonzero(np.any(outputs != new_outputs, axis=0)), is_hidden


def _run(model, others, x):
    """Returns a model's outputs and the inputs of layers, without noise."""
    inputs = []

    def observe(layer, value):
        if any(layer is other for other in others):
            inputs.append(value.numpy())

    functional.seeds.reseed(model, 0)
    with layers.mean_weights(), layers.observe_inputs(observe):
        return model(x).numpy(), inputs
