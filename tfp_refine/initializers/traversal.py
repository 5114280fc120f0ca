"""The variational layers of a model in the order of its calls; their inputs."""

import math
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import layers

# Examples that are propagated at once, and normalized together.
CHUNK_SIZE = 256


class _Reached(BaseException):
    """Ends a call of the model where the wanted layer is called.

    Not an `Exception`: Keras would turn it into another one.
    """


class Call(NamedTuple):
    """The first call of a layer.

    Attributes:
        layer: `VariationalLayer`.
        num_positions: At how many positions of an example it has outputs.
    """

    layer: layers.VariationalLayer
    num_positions: int


def calls_in_order(model, chosen, x):
    """Calls a model to see in which order it calls its layers.

    Args:
        model: `keras.Model`.
        chosen: Variational layers of it.
        x: Its inputs, `[N, ...]` (or nested).

    Returns:
        calls: `Call`s of those of the layers that it calls, in their order.
        outputs: Outputs of the model for the first examples.
    """
    calls = []

    def observe(called, inputs):
        if any(layer is called for layer in chosen) and all(
            call.layer is not called for call in calls
        ):
            calls.append(Call(called, _num_positions(called, inputs)))

    with layers.observe_inputs(observe):
        outputs = model(take(x, slice(CHUNK_SIZE)))
    return calls, outputs


def _num_positions(layer, inputs):
    shape = list(layer.compute_output_shape(inputs.shape))
    del shape[layer.channel_axis]
    return math.prod(shape[1:])


def moved_outputs(model, layer, x, rng):
    """Tells which outputs of a model depend on a layer.

    Args:
        model: `keras.Model` with one output, `[B, D]`.
        layer: One of its `VariationalLayer`s.
        x: A few inputs, `[B, ...]` (or nested).
        rng: `numpy.random.Generator`.

    Returns:
        columns: Indices of the outputs that change when the layer's weights,
            and no others, do.
    """
    variable = layer.bias if layer.use_bias else layer.kernel
    value = variable.numpy()
    with layers.mean_weights():
        before = model(x).numpy()
        try:
            variable.assign(value + rng.normal(size=value.shape))
            after = model(x).numpy()
        finally:
            variable.assign(value)
    return np.flatnonzero(np.any(before != after, axis=0))


def layer_inputs(model, layer, x):
    """Computes the inputs of a layer, with draws of the weights before it.

    Layers act as in training: batch normalization with the statistics of the
    batch, for one. A layer that is called several times has the inputs of its
    first call.

    Args:
        model: `keras.Model`.
        layer: One of its `VariationalLayer`s.
        x: Inputs of the model, `[B, ...]` (or nested).

    Returns:
        inputs: `[B, ...]`, in the layer's `compute_dtype`.

    Raises:
        ValueError: If the layer is not called.
    """
    reached = []

    def observe(called, inputs):
        if called is layer:
            reached.append(inputs)
            raise _Reached

    with layers.observe_inputs(observe):
        try:
            model(x, training=True)
        except _Reached:
            return reached[0]
    raise ValueError(
        f"The model '{model.name}' did not call its layer '{layer.name}', "
        "which it called before. If its `call` is a tf.function, initialize "
        "the model without that."
    )


def update_moving_statistics(model, x):
    """Sets the moving statistics of batch normalization to those of a batch.

    Args:
        model: `keras.Model`.
        x: Inputs of the model, `[B, ...]` (or nested).
    """
    normalizations = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    if not normalizations:
        return
    momenta = [layer.momentum for layer in normalizations]
    try:
        for layer in normalizations:
            layer.momentum = 0.0
        model(x, training=True)
    finally:
        for layer, momentum in zip(normalizations, momenta, strict=True):
            layer.momentum = momentum


def take(x, indices):
    """Takes examples of an array or of nested arrays.

    Args:
        x: Tensors, `[N, ...]` (or nested).
        indices: Integers `[B]`, or a slice.

    Returns:
        x: `[B, ...]` (or nested).
    """
    if isinstance(indices, slice):
        return keras.tree.map_structure(lambda leaf: leaf[indices], x)
    return keras.tree.map_structure(lambda leaf: tf.gather(leaf, indices), x)


def num_examples(x):
    """Returns how many examples an array, or nested arrays, hold."""
    return keras.tree.flatten(x)[0].shape[0]


def random_batch(x, size, rng):
    """Draws examples without replacement, all of them if there are fewer."""
    number = num_examples(x)
    return take(x, rng.choice(number, min(size, number), replace=False))
