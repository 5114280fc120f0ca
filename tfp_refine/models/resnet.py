"""Residual networks with variational layers."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.models import layer_maker

VARIATIONAL = ("none", "hybrid", "full")


def ResNet(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    num_classes: int = 10,
    *,
    depth: int = 20,
    variational: Any = "hybrid",
    batch_norm: bool = False,
    activation: Any = None,
    conv_layer: Callable = layers.Conv2DFlipout,
    dense_layer: Callable = layers.DenseLocalReparameterization,
    l2: float = 1e-4,
    seed: int | None = None,
    name: str | None = None,
    **layer_arguments: Any,
) -> keras.Model:
    """Builds a residual network for small images (He et al., 2015, sec. 4.2).

    A 3x3 convolution of 16 filters, three stacks of `(depth - 2) / 6` blocks
    with 16, 32 and 64 filters, average pooling, and a dense layer. The first
    block of the last two stacks halves the image; there, and only there, the
    shortcut is a 1x1 convolution.

    Which weights have posteriors is chosen as by Havasi et al. (2021):

    - `"none"`: none, an ordinary network;
    - `"hybrid"`: the second convolution of each block, and the dense layer;
    - `"full"`: both convolutions of each block, and the dense layer.

    First convolution and shortcuts are deterministic. Kernels of
    deterministic layers have the regularizer `L2(l2)`. Biases are point
    estimates, unless `bias_posterior` says otherwise.

    Args:
        input_shape: Height, width and channels of an image.
        num_classes: Number of outputs, logits. Defaults to `10`.
        depth: Layers with weights on the way through, `6 n + 2`. Defaults to
            `20`.
        variational: One of the above. Defaults to `"hybrid"`.
        batch_norm: Whether the convolutions of the blocks are followed by
            batch normalization. Defaults to `False`.
        activation: Activation. Defaults to `None`: `"selu"`, or `"relu"` with
            `variational="none"`.
        conv_layer: Class of the Bayesian convolutions, called as
            `keras.layers.Conv2D`.
        dense_layer: Class of the last layer if it is Bayesian, called as
            `keras.layers.Dense`.
        l2: Factor of the deterministic kernels' L2 penalty. Defaults to `1e-4`.
        seed: Integer that fixes the initial weights and the noise; each layer
            has streams of its own.
        name: Name of the model. Defaults to `None`, `"resnet20"` and so on.
        **layer_arguments: Arguments of each Bayesian layer, such as
            `kernel_regularizer`, `kernel_posterior`, `num_train_examples`.

    Returns:
        model: Functional `keras.Model`, not compiled, `[B, H, W, C]` to logits
            `[B, num_classes]`.

    Raises:
        ValueError: If an argument is invalid.

    Example:

    ```python
    model = tfp_refine.models.ResNet(
        (32, 32, 3), depth=32, batch_norm=True, num_train_examples=50000
    )
    ```

    Reference:
        - [He et al., 2015](https://arxiv.org/abs/1512.03385)
        - [Havasi et al., 2021](https://doi.org/10.3390/e23111475)
    """
    input_shape = _validation.image_shape("input_shape", input_shape)
    if variational not in VARIATIONAL:
        raise ValueError(
            f"`variational` must be one of {VARIATIONAL}. "
            f"Received: variational={variational!r}"
        )
    num_classes = _validation.positive_integer("num_classes", num_classes)
    depth = _validation.positive_integer("depth", depth)
    num_blocks, left = divmod(depth - 2, 6)
    if left or num_blocks < 1:
        raise ValueError(
            "`depth` must be 6 n + 2 with n >= 1: 8, 14, 20, ... "
            f"Received: depth={depth}"
        )
    if activation is None:
        activation = "relu" if variational == "none" else "selu"
    weights = _Weights(
        seed, depth, conv_layer, dense_layer, l2, layer_arguments
    )
    inputs = keras.Input(input_shape, name="inputs")
    x = weights.conv(16, 3, "conv1_conv")(inputs)
    x = keras.layers.Activation(activation, name="conv1_out")(x)
    for stack, filters in enumerate((16, 32, 64)):
        for block in range(num_blocks):
            x = _block(
                x,
                f"conv{stack + 2}_block{block + 1}",
                weights,
                filters,
                strides=2 if stack > 0 and block == 0 else 1,
                variational=variational,
                batch_norm=batch_norm,
                activation=activation,
            )
    x = keras.layers.GlobalAveragePooling2D(
        data_format="channels_last", name="pool"
    )(x)
    outputs = weights.outputs(num_classes, variational != "none")(x)
    return keras.Model(inputs, outputs, name=name or f"resnet{depth}")


def ResNet20(
    input_shape: Sequence[int], num_classes: int = 10, **arguments: Any
) -> keras.Model:
    """Builds a `ResNet` of depth 20; the arguments are the same."""
    return ResNet(input_shape, num_classes, depth=20, **arguments)


def _block(
    x, name, weights, filters, strides, variational, batch_norm, activation
):
    shortcut = x
    if strides > 1:
        # Subsampled first: a strided 1x1 convolution is the same, but in
        # TensorFlow 2.21 its filter gradient can corrupt memory on a CPU.
        shortcut = keras.layers.MaxPooling2D(
            1,
            strides=strides,
            data_format="channels_last",
            name=f"{name}_0_subsample",
        )(shortcut)
        shortcut = weights.conv(filters, 1, f"{name}_0_conv")(shortcut)
    for index in (1, 2):
        bayesian = variational == "full" or (
            variational == "hybrid" and index == 2
        )
        x = weights.conv(
            filters,
            3,
            f"{name}_{index}_conv",
            strides=strides if index == 1 else 1,
            bayesian=bayesian,
        )(x)
        if batch_norm:
            x = keras.layers.BatchNormalization(name=f"{name}_{index}_bn")(x)
        if index == 1:
            x = keras.layers.Activation(activation, name=f"{name}_1_act")(x)
    x = keras.layers.Add(name=f"{name}_add")([shortcut, x])
    return keras.layers.Activation(activation, name=f"{name}_out")(x)


class _Weights:
    """Makes the layers that have weights, Bayesian or deterministic."""

    def __init__(
        self, seed, depth, conv_layer, dense_layer, l2, layer_arguments
    ):
        self._make = layer_maker.LayerMaker(seed)
        self._conv_layer = conv_layer
        self._dense_layer = dense_layer
        self._layer_arguments = {
            "bias_posterior": None,
            "bias_initializer": keras.initializers.RandomNormal(stddev=0.1),
            **layer_arguments,
        }
        # Standard deviations of "he_normal" times depth ** (-1 / 4).
        self._kernel_initializer = keras.initializers.VarianceScaling(
            2.0 / depth**0.5, "fan_in", "truncated_normal"
        )
        self._deterministic = {
            "kernel_initializer": "he_normal",
            "kernel_regularizer": keras.regularizers.L2(l2),
        }

    def conv(self, filters, kernel_size, name, strides=1, bayesian=False):
        """Makes a convolution."""
        layer = self._conv_layer if bayesian else keras.layers.Conv2D
        options = (
            {
                "kernel_initializer": self._kernel_initializer,
                **self._layer_arguments,
            }
            if bayesian
            else self._deterministic
        )
        return self._make(
            layer,
            filters,
            kernel_size,
            strides=strides,
            padding="same",
            data_format="channels_last",
            name=name,
            **options,
        )

    def outputs(self, num_classes, bayesian):
        """Makes the last layer."""
        layer = self._dense_layer if bayesian else keras.layers.Dense
        options = (
            {"kernel_initializer": "he_normal", **self._layer_arguments}
            if bayesian
            else self._deterministic
        )
        return self._make(layer, num_classes, name="outputs", **options)
