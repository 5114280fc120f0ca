"""Arguments that layers hand on to Keras are refused by their names."""

import keras
import numpy as np
import pytest

import tfp_refine as tfr

DENSE = {"units": 2}
CONV = {"filters": 2, "kernel_size": 2}
ATTENTION = {"num_heads": 2, "key_dim": 2}
UNKNOWN = {"class_name": "Unknown", "config": {}}


@pytest.mark.parametrize(
    ("layer", "good", "name", "value"),
    [
        ("DenseReparameterization", DENSE, "activation", UNKNOWN),
        ("DenseReparameterization", DENSE, "kernel_initializer", {}),
        ("DenseReparameterization", DENSE, "bias_constraint", {"a": 1}),
        ("DenseReparameterization", DENSE, "activity_regularizer", len),
        ("DenseReparameterization", DENSE, "dtype", UNKNOWN),
        (
            "DenseReparameterization",
            DENSE,
            "bias_initializer",
            np.array([None, {}], object),
        ),
        ("Conv2DFlipout", CONV, "strides", 10**30),
        ("Conv2DFlipout", CONV, "dilation_rate", [1.0, 1.0]),
        ("Conv1DTransposeFlipout", CONV, "kernel_size", "2"),
        (
            "DepthwiseConv2DFlipout",
            {"kernel_size": 2},
            "depthwise_initializer",
            {},
        ),
        (
            "SeparableConv1DFlipout",
            CONV,
            "pointwise_constraint",
            {"a": 1},
        ),
        ("MultiHeadAttentionFlipout", ATTENTION, "kernel_initializer", len),
        ("MultiHeadAttentionFlipout", ATTENTION, "dropout", np.ones(2)),
        ("MultiHeadAttentionFlipout", ATTENTION, "flash_attention", "2"),
        ("MultiHeadAttentionFlipout", ATTENTION, "attention_axes", ["a"]),
        ("MultiHeadAttentionFlipout", ATTENTION, "output_shape", np.ones(2)),
        ("MultiHeadAttentionFlipout", ATTENTION, "sliding_window", 10**30),
        ("LSTMReparameterization", DENSE, "recurrent_dropout", "2"),
        ("LSTMReparameterization", DENSE, "use_cudnn", np.ones(2)),
        ("MCDropout", {"rate": 0.1}, "dtype", UNKNOWN),
        ("HomoscedasticNoise", {}, "dtype", UNKNOWN),
    ],
)
def test_a_bad_argument_of_keras_is_named(layer, good, name, value):
    with pytest.raises(ValueError, match=f"`{name}` must"):
        getattr(tfr.layers, layer)(**{**good, name: value})


def test_a_bad_argument_of_the_layers_of_a_model_is_named():
    with pytest.raises(ValueError, match="`kernel_initializer` must"):
        tfr.models.MLP((3,), hidden=(2,), kernel_initializer={"a": 1})
    for name in ("ResNet", "ResNet18"):
        with pytest.raises(ValueError, match="`activation` must"):
            getattr(tfr.models, name)((8, 8, 1), activation=UNKNOWN)
    with pytest.raises(ValueError, match="`kernel_initializer` must"):
        tfr.models.TextTransformer(
            5,
            length=4,
            width=4,
            depth=1,
            hidden_units=4,
            kernel_initializer=np.ones(2),
        )


def test_an_activation_that_changes_shapes_is_named():
    tfr.layers.GRUReparameterization(2, keras.ops.tanh)(np.zeros((1, 2, 3)))
    layer = tfr.layers.GRUReparameterization(2, lambda x: x[:, :1])
    with pytest.raises(ValueError, match="`activation` must"):
        layer(np.zeros((1, 2, 3), "float32"))


def test_a_noise_shape_of_other_inputs_is_named():
    with pytest.raises(ValueError, match="`noise_shape` must"):
        tfr.layers.MCDropout(0.5, noise_shape=(1, 2))(np.ones((4, 3)))


def test_keras_objects_functions_and_arrays_are_taken():
    layer = tfr.layers.DenseReparameterization(
        2,
        activation=keras.ops.tanh,
        kernel_initializer=keras.initializers.Ones(),
        bias_initializer=np.ones(2, "float32"),
        kernel_constraint="non_neg",
        activity_regularizer="l2",
        num_train_examples=4,
        dtype="mixed_bfloat16",
    )
    layer(np.ones((4, 3)))
    np.testing.assert_array_equal(layer.bias, np.ones(2))
