"""Strided convolutions with a 1x1 kernel.

TensorFlow 2.21 with oneDNN corrupts memory in the filter gradient of such
convolutions on a CPU: for odd batches, fewer than 16 channels and some sizes of
the image. So theirs is computed in NumPy here, and not by Keras.
"""

import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from tests.support import conv_layers
from tfp_refine import layers


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("strides", [2, 3])
@pytest.mark.parametrize(
    ("make_layer", "data_format"),
    conv_layers.layouts(
        [
            layers.Conv1DReparameterization,
            layers.Conv2DLocalReparameterization,
            layers.Conv3DFlipout,
        ]
    ),
)
def test_a_strided_1x1_convolution_is_that_of_keras(
    make_layer, strides, padding, data_format, rng
):
    rank = conv_layers.rank(make_layer)
    for space in ((7, 4, 3), (6, 5, 8)):
        space = space[:rank]
        last = data_format == "channels_last"
        x = rng.normal(size=(3, *space, 2) if last else (3, 2, *space))
        x = x.astype("float32")
        layer = make_layer(4, 1, strides, padding, data_format, seed=1)
        outputs = layer(x, sample=False)
        expected = conv_layers.twin(layer, x.shape)(x)
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
        assert layer(x).shape == layer.compute_output_shape(x.shape)


@pytest.mark.parametrize(
    ("make_layer", "arguments"),
    [
        (layers.Conv2DReparameterization, {"groups": 2}),
        (layers.Conv3DReparameterization, {"data_format": "channels_first"}),
    ],
)
def test_a_strided_1x1_convolution_that_needs_xla_is_that_of_keras(
    make_layer, arguments, rng
):
    x = rng.normal(size=[3, 4] + [5] * (conv_layers.rank(make_layer) - 1) + [4])
    x = x.astype("float32")
    layer = make_layer(6, 1, strides=2, seed=1, **arguments)
    outputs = layer(x, sample=False)
    expected = conv_layers.twin(layer, x.shape)(x)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("make_layer", conv_layers.TRANSPOSED)
@pytest.mark.parametrize("strides", [1, 2, 3, (1, 2), (3, 1)])
@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("output_padding", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_a_strided_1x1_transposed_convolution_is_that_of_keras(
    make_layer, strides, padding, output_padding, data_format, rng
):
    rank = conv_layers.rank(make_layer)
    if rank != 2 and not (
        isinstance(strides, int)
        and isinstance(output_padding, int | None)
        and data_format == "channels_last"
    ):
        return
    below = np.broadcast_to(output_padding or 0, 2) < np.broadcast_to(
        strides, 2
    )
    if not np.all(below):
        return  # an error in Keras too
    layer = make_layer(
        3, 1, strides, padding, output_padding, data_format, seed=1
    )
    space = (4, 3, 2)[:rank]
    shape = (2, *space, 2) if data_format == "channels_last" else (2, 2, *space)
    x = rng.normal(size=shape).astype("float32")
    outputs = layer(x, sample=False)
    expected = conv_layers.twin(layer, x.shape)(x)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    assert layer(x).shape == layer.compute_output_shape(x.shape)


def _gradients(layer, x, cotangent):
    """Returns the gradients of kernel and inputs, at the means."""
    x = tf.constant(x, "float32")
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = layer(x, sample=False)
        loss = tf.reduce_sum(outputs * cotangent)
    return tape.gradient(loss, [layer.kernel.value, x])


@pytest.mark.parametrize("batch_size", [3, 4])
@pytest.mark.parametrize("size", [5, 16])
@pytest.mark.parametrize(
    "make_layer",
    [
        layers.Conv1DReparameterization,
        layers.Conv1DFlipout,
        layers.Conv2DReparameterization,
        layers.Conv2DFlipout,
        layers.Conv2DLocalReparameterization,
        layers.Conv3DFlipout,
    ],
)
def test_gradients_of_a_strided_1x1_convolution_are_exact(
    make_layer, size, batch_size, rng
):
    rank = conv_layers.rank(make_layer)
    shape = (batch_size, *[size, 5, 4][:rank], 8)
    x = rng.normal(size=shape)
    layer = make_layer(4, 1, strides=2, padding="same", use_bias=False)
    cotangent = rng.normal(size=layer.compute_output_shape(shape))
    layer.build(shape)
    kernel_gradient, x_gradient = _gradients(layer, x, cotangent)
    every_other = (slice(None), *[slice(None, None, 2)] * rank)
    np.testing.assert_allclose(
        np.reshape(kernel_gradient, (8, 4)),
        np.tensordot(x[every_other], cotangent, axes=[range(rank + 1)] * 2),
        rtol=1e-4,
        atol=1e-4,
    )
    expected = np.zeros(shape)
    kernel = np.reshape(layer.kernel, (8, 4)).astype("float64")
    expected[every_other] = cotangent @ kernel.T
    np.testing.assert_allclose(x_gradient, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch_size", [3, 4])
@pytest.mark.parametrize("make_layer", conv_layers.TRANSPOSED)
def test_gradients_of_a_strided_1x1_transposed_convolution_are_exact(
    make_layer, batch_size, rng
):
    rank = conv_layers.rank(make_layer)
    x = rng.normal(size=(batch_size, *[8] * rank, 4))
    layer = make_layer(8, 1, strides=2, use_bias=False)
    layer.build(x.shape)
    cotangent = rng.normal(size=(batch_size, *[16] * rank, 8))
    kernel_gradient, x_gradient = _gradients(layer, x, cotangent)
    here = cotangent[(slice(None), *[slice(None, None, 2)] * rank)]
    np.testing.assert_allclose(
        np.reshape(kernel_gradient, (8, 4)),
        np.tensordot(here, x, axes=[range(rank + 1)] * 2),
        rtol=1e-4,
        atol=1e-4,
    )
    kernel = np.reshape(layer.kernel, (8, 4)).astype("float64")
    np.testing.assert_allclose(x_gradient, here @ kernel, rtol=1e-4, atol=1e-4)


def _dangerous_operations(layer, input_shape):
    """Returns the strided 1x1 convolutions in the graph of a training step."""

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(layer(x)))
        return tape.gradient(loss, [v.value for v in layer.trainable_variables])

    layer.build((None, *input_shape))
    spec = tf.TensorSpec((None, *input_shape))
    operations = step.get_concrete_function(spec).graph.get_operations()
    convolutions = [op for op in operations if op.type.startswith("Conv")]
    assert any("BackpropFilter" in op.type for op in convolutions)
    return [
        op.type
        for op in convolutions
        if max(op.get_attr("strides")) > 1 and set(_window(op)) == {1}
    ]


def _window(operation):
    """Returns the spatial sizes of a convolution's kernel."""
    is_filter_gradient = "BackpropFilter" in operation.type
    kernel = (
        operation.outputs if is_filter_gradient else operation.inputs[1:]
    )[0]
    return kernel.shape[:-2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make_layer", [*conv_layers.CONVOLUTIONS, *conv_layers.TRANSPOSED]
)
@pytest.mark.parametrize("strides", ["equal", "one axis"])
def test_no_strided_1x1_convolution_is_in_the_graph_of_a_training_step(
    make_layer, strides
):
    rank = conv_layers.rank(make_layer)
    strides = 2 if strides == "equal" else (*[1] * (rank - 1), 2)
    layer = make_layer(4, 1, strides=strides, padding="same")
    shape = (*[16, 6, 4][:rank], 8)
    assert _dangerous_operations(layer, shape) == []
    theirs = layer.keras_layer(4, 1, strides=strides, padding="same")
    found = _dangerous_operations(theirs, shape)
    assert any("BackpropFilter" in operation for operation in found)


@pytest.mark.slow
def test_odd_batches_do_not_corrupt_memory():
    # In a process of its own: without the detour it dies in most runs.
    script = """
        import keras, numpy as np
        from tfp_refine import layers

        for make_layer, shape in (
            (layers.Conv1DFlipout, (64, 8)),
            (layers.Conv2DFlipout, (16, 16, 8)),
            (layers.Conv1DTransposeFlipout, (64, 8)),
            (layers.Conv2DTransposeFlipout, (16, 16, 8)),
        ):
            layer = make_layer(4, 1, 2, "same", num_train_examples=1)
            model = keras.Sequential([keras.Input(shape), layer])
            model.compile("sgd", "mse", run_eagerly=True)
            for batch_size in (1, 3, 5, 7):
                for _ in range(4):
                    x = np.ones([batch_size, *shape], "float32")
                    y = np.zeros(layer.compute_output_shape(x.shape))
                    assert np.isfinite(model.train_on_batch(x, y))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=pathlib.Path(__file__).parents[2],
        env={"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
