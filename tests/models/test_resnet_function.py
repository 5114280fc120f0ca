"""Function of a residual network, and operations its gradient avoids."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tfp_refine import layers
from tfp_refine import models


def images(rng, shape=(8, 8, 3), count=4):
    return rng.normal(size=(count, *shape)).astype("float32")


class Plain:
    """The same network of Keras' layers, written down another way.

    Shortcuts are strided 1x1 convolutions, as in the papers.
    """

    def __init__(self, num_blocks, activation, batch_norm, num_classes):
        inputs = keras.Input((None, None, 3))
        self.activation = keras.activations.get(activation)
        self.batch_norm = batch_norm
        x = self.activation(self.conv(inputs, 16, 3, 1, "conv1_conv"))
        for stack, filters in ((2, 16), (3, 32), (4, 64)):
            for block in range(1, num_blocks + 1):
                strides = 2 if stack > 2 and block == 1 else 1
                x = self.block(x, filters, strides, f"conv{stack}_block{block}")
        x = keras.ops.mean(x, axis=(1, 2))
        x = keras.layers.Dense(num_classes, name="outputs")(x)
        self.model = keras.Model(inputs, x)

    def conv(self, x, filters, size, strides, name):
        return keras.layers.Conv2D(
            filters, size, strides, padding="same", name=name
        )(x)

    def block(self, x, filters, strides, name):
        y = self.conv(x, filters, 3, strides, f"{name}_1_conv")
        if self.batch_norm:
            y = keras.layers.BatchNormalization(name=f"{name}_1_bn")(y)
        y = self.conv(self.activation(y), filters, 3, 1, f"{name}_2_conv")
        if self.batch_norm:
            y = keras.layers.BatchNormalization(name=f"{name}_2_bn")(y)
        if strides == 2:
            x = self.conv(x, filters, 1, 2, f"{name}_0_conv")
        return self.activation(x + y)

    def take_weights(self, model):
        """Copies the weights of the layers of the same names."""
        taken = 0
        for layer in self.model.layers:
            if not layer.weights:
                continue
            other = model.get_layer(layer.name)
            values = (
                [other.kernel, other.bias]
                if isinstance(other, layers.VariationalLayer)
                else other.get_weights()
            )
            layer.set_weights([np.array(value) for value in values])
            taken += 1
        assert taken == sum(1 for layer in model.layers if layer.weights)


def scramble(model, rng):
    """Sets all deterministic weights, batch statistics too, to random ones."""
    for layer in model.layers:
        if not isinstance(layer, layers.VariationalLayer):
            layer.set_weights(
                [
                    rng.uniform(0.3, 0.6, value.shape) / len(value) ** 0.5
                    for value in layer.get_weights()
                ]
            )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variational", "batch_norm", "shape"),
    [
        ("none", False, (8, 8, 3)),
        ("none", True, (9, 7, 3)),
        ("hybrid", True, (8, 8, 3)),
        ("full", False, (9, 7, 3)),
    ],
)
def test_mean_weights_compute_what_the_plain_network_computes(
    rng, variational, batch_norm, shape
):
    model = models.ResNet(
        shape,
        4,
        depth=14,
        variational=variational,
        batch_norm=batch_norm,
        kernel_posterior=layers.MeanFieldPosterior(1.0),
    )
    scramble(model, rng)
    activation = "relu" if variational == "none" else "selu"
    plain = Plain(2, activation, batch_norm, 4)
    plain.take_weights(model)
    x = images(rng, shape)
    expected = np.asarray(plain.model(x))
    with layers.mean_weights():
        found = np.asarray(model(x))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * scale)
    if variational != "none":
        assert layer_case.differ(model(x), expected)


# TensorFlow's filter gradient of a strided 1x1 convolution corrupts the heap.


def _strided_pointwise(model):
    """Lists the strided 1x1 convolutions in the graph of a gradient."""
    size = model.input_shape[1:]

    @tf.function(autograph=False)
    def gradient(x):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(model(x, training=True))
        return tape.gradient(total, model.trainable_variables)

    graph = gradient.get_concrete_function(
        tf.TensorSpec((3, *size), "float32")
    ).graph
    functions = graph._functions.values()
    graphs = [graph, *(function.graph for function in functions)]
    convolutions = [
        operation
        for one in graphs
        for operation in one.get_operations()
        if operation.type.startswith("Conv2D")
    ]
    assert any(op.type == "Conv2DBackpropFilter" for op in convolutions)
    found = []
    for operation in convolutions:
        is_filter = operation.type == "Conv2DBackpropFilter"
        shape = (
            operation.outputs[0] if is_filter else operation.inputs[1]
        ).shape
        if (
            tuple(shape[:2]) == (1, 1)
            and max(operation.get_attr("strides")) > 1
        ):
            found.append(operation.type)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("variational", ["none", "hybrid", "full"])
def test_no_gradient_of_a_strided_1x1_convolution_is_taken(variational):
    model = models.ResNet((8, 8, 3), 4, depth=8, variational=variational)
    assert _strided_pointwise(model) == []


def test_the_search_for_strided_1x1_convolutions_finds_them():
    inputs = keras.Input((8, 8, 3))
    plain = keras.Model(inputs, Plain(1, "relu", False, 4).model(inputs))
    found = _strided_pointwise(plain)
    assert found.count("Conv2D") == 2
    assert found.count("Conv2DBackpropFilter") == 2


@pytest.mark.slow
def test_training_on_odd_batches_does_not_corrupt_memory():
    # In a process of its own, which a corrupt heap would end.
    script = """
import keras
import numpy as np
from tfp_refine import models

rng = np.random.default_rng(0)
x = rng.normal(size=(6, 9, 9, 3)).astype("float32")
y = rng.integers(4, size=len(x))
for variational in ("none", "full"):
    model = models.ResNet(
        x.shape[1:], 4, depth=8, variational=variational,
        num_train_examples=len(x),
    )
    model.compile(
        "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    for batch_size in (1, 3):
        model.fit(x, y, batch_size=batch_size, epochs=2, verbose=0)
"""
    result = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-2000:]
