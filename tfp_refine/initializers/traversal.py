"""The variational layers of a model in the order of its calls; their inputs."""

import math
from typing import NamedTuple

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import layers

# Most examples that are propagated at once, and normalized together; and most
# numbers of them in the outputs of any one layer: 128 MiB.
_MAX_CHUNK, _MAX_NUMBERS = 256, 2**25


class _Reached(BaseException):
    """Ends a call of the model where the wanted layer is called.

    Not an `Exception`: Keras would turn it into another one.
    """


def chunk_size(model):
    """Returns how many examples are propagated at once.

    Only outputs whose shape a functional model knows count.
    """
    tensors = [
        tensor
        for layer in model._flatten_layers()
        for node in layer._inbound_nodes
        for tensor in node.outputs
    ]
    sizes = [math.prod(n or 1 for n in t.shape[1:]) for t in tensors]
    return min(max(_MAX_NUMBERS // max(sizes, default=1), 1), _MAX_CHUNK)


class Call(NamedTuple):
    """Calls of a layer in a model: `count` times, from the first call on.

    `num_positions` counts the positions of an example with outputs, in all
    calls.
    """

    layer: layers.VariationalLayer
    count: int  # type: ignore[assignment]
    num_positions: int


def calls_in_order(model, chosen, x):
    """Finds the `Call`s of the chosen layers, in the order of the model.

    Also returns the outputs of the model for the first examples of `x`.
    """
    found = {}

    def observe(layer, inputs):
        if any(layer is other for other in chosen):
            found.setdefault(id(layer), []).append(
                Call(layer, 1, layer.num_positions(inputs.shape))
            )

    with layers.observe_inputs(observe):
        outputs = model(functional.data.take(x, slice(chunk_size(model))))
    missing = [layer.name for layer in chosen if id(layer) not in found]
    if not found:
        raise ValueError(
            f"The model '{model.name}' was not seen to call its layers "
            f"{missing}. If its `call` is a tf.function, initialize the model "
            "without that."
        )
    if missing:
        _validation.warn(
            f"Not initialized, as the model does not call them: {missing}",
        )
    calls = [
        Call(same[0].layer, len(same), sum(c.num_positions for c in same))
        for same in found.values()
    ]
    return calls, outputs


def layer_inputs(model, call, x):
    """Computes the inputs `[B, ...]` of each call of a layer, a list.

    The weights before it are drawn. Layers act as in training: batch
    normalization with the statistics of the batch, for one.
    """
    inputs = []

    def observe(called, value):
        if called is call.layer:
            inputs.append(value)
            if len(inputs) == call.count:
                raise _Reached

    with layers.observe_inputs(observe):
        try:
            model(x, training=True)
        except _Reached:
            return inputs
    raise ValueError(
        f"The model '{model.name}' called its layer '{call.layer.name}' "
        f"{call.count} times, and then {len(inputs)} times: it must call the "
        "same layers each time."
    )


def update_moving_statistics(model, x, rng):
    """Sets the moving statistics of batch normalization to those of a batch."""
    normalizations = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    if not normalizations:
        return
    batch = random_batch(x, chunk_size(model), rng)
    momenta = [layer.momentum for layer in normalizations]
    try:
        for layer in normalizations:
            layer.momentum = 0.0
        model(batch, training=True)
    finally:
        for layer, momentum in zip(normalizations, momenta, strict=True):
            layer.momentum = momentum


def gather(x, indices):
    """Takes examples of an array, or of nested arrays, by their numbers."""
    return keras.tree.map_structure(lambda leaf: tf.gather(leaf, indices), x)


def random_batch(x, size, rng):
    """Draws examples without replacement, all of them if there are fewer."""
    number = functional.data.num_examples(x)
    return gather(x, rng.choice(number, min(size, number), replace=False))
