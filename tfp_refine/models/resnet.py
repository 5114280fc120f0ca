"""Residual networks with variational layers."""

from collections.abc import Sequence

import keras

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.layers import argument_checks
from tfp_refine.layers import argument_types
from tfp_refine.models import layer_maker
from tfp_refine.models import variants


def ResNet(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    num_classes: int = 10,
    *,
    depth: int = 20,
    variational: str = "hybrid",
    batch_norm: bool = False,
    activation: argument_types.Activation = None,
    conv_layer: layer_maker.Kind = layers.Conv2DFlipout,
    dense_layer: layer_maker.Kind = layers.DenseLocalReparameterization,
    l2: float = 1e-4,
    kernel_initializer: argument_types.Initializer = None,
    kernel_posterior: argument_types.Posterior = "mean_field",
    bias_posterior: argument_types.Posterior = None,
    kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
    bias_regularizer: argument_types.Regularizer = "gaussian_kl",
    num_train_examples: int | None = None,
    kl_scale: float = 1.0,
    seed: int | None = None,
    name: str | None = None,
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
            `keras.layers.Conv2D`, or a `functools.partial` of one with more of
            its arguments.
        dense_layer: The same of the last layer, as `keras.layers.Dense`.
        l2: Factor of the deterministic kernels' L2 penalty. Defaults to `1e-4`.
        kernel_initializer: Initializer of the Bayesian kernels' means. Defaults
            to `None`: He normal, times `depth ** (-1 / 4)` in convolutions.
        kernel_posterior: Posterior family of the Bayesian layers' kernels, its
            name, or `None` for point estimates. Defaults to `"mean_field"`.
        bias_posterior: The same of their biases. Defaults to `None`.
        kernel_regularizer: KL regularizer of these kernels, or its name.
            Defaults to `"gaussian_kl"`.
        bias_regularizer: The same of these biases.
        num_train_examples: Number of training examples. Can be set later, by
            `layers.set_num_train_examples`.
        kl_scale: Factor on the KL divergence. Defaults to `1.0`.
        seed: Integer that fixes the initial weights and the noise; each layer
            has streams of its own.
        name: Name of the model. Defaults to `None`, `"resnet20"` and so on.

    Returns:
        model: Functional `keras.Model`, not compiled, `[B, H, W, C]` to logits
            `[B, num_classes]`.

    Raises:
        ValueError: If an argument is invalid, or a class of layers does not
            have an argument that is not at its default.

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
    _validation.one_of("variational", variational, variants.VARIATIONAL)
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
    argument_checks.check({"activation": activation})
    make = layer_maker.LayerMaker(seed, locals())
    bias_initializer = keras.initializers.RandomNormal(stddev=0.1)
    # Standard deviations of "he_normal" times depth ** (-1 / 4).
    shrunk = keras.initializers.VarianceScaling(
        2.0 / depth**0.5, "fan_in", "truncated_normal"
    )
    deterministic = {
        "kernel_initializer": "he_normal",
        "kernel_regularizer": None
        if l2 is None
        else keras.regularizers.L2(_validation.not_negative("l2", l2)),
    }

    def conv(filters, kernel_size, name, strides=1, bayesian=False):
        arguments = {
            "filters": filters,
            "kernel_size": kernel_size,
            "strides": strides,
            "padding": "same",
            "data_format": "channels_last",
            "name": name,
        }
        if not bayesian:
            return make.make(keras.layers.Conv2D, **arguments, **deterministic)
        return make(
            conv_layer,
            kernel_initializer=(
                shrunk if kernel_initializer is None else kernel_initializer
            ),
            bias_initializer=bias_initializer,
            **arguments,
        )

    def residual_block(x, name, filters, strides):
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
            shortcut = conv(filters, 1, f"{name}_0_conv")(shortcut)
        for index in (1, 2):
            bayesian = variational == "full" or (
                variational == "hybrid" and index == 2
            )
            x = conv(
                filters,
                3,
                f"{name}_{index}_conv",
                strides if index == 1 else 1,
                bayesian,
            )(x)
            if batch_norm:
                x = keras.layers.BatchNormalization(name=f"{name}_{index}_bn")(
                    x
                )
            if index == 1:
                x = keras.layers.Activation(activation, name=f"{name}_1_act")(x)
        x = keras.layers.Add(name=f"{name}_add")([shortcut, x])
        return keras.layers.Activation(activation, name=f"{name}_out")(x)

    inputs = keras.Input(input_shape, name="inputs")
    x = conv(16, 3, "conv1_conv")(inputs)
    x = keras.layers.Activation(activation, name="conv1_out")(x)
    for stack, filters in enumerate((16, 32, 64)):
        for block in range(num_blocks):
            x = residual_block(
                x,
                f"conv{stack + 2}_block{block + 1}",
                filters,
                strides=2 if stack > 0 and block == 0 else 1,
            )
    x = keras.layers.GlobalAveragePooling2D(
        data_format="channels_last", name="pool"
    )(x)
    if variational == "none":
        last = make.make(
            keras.layers.Dense, num_classes, name="outputs", **deterministic
        )
    else:
        last = make(
            dense_layer,
            num_classes,
            name="outputs",
            kernel_initializer=(
                "he_normal"
                if kernel_initializer is None
                else kernel_initializer
            ),
            bias_initializer=bias_initializer,
        )
    name = f"resnet{depth}" if name is None else name
    return keras.Model(inputs, last(x), name=name)


def ResNet20(
    input_shape: Sequence[int],
    num_classes: int = 10,
    *,
    variational: str = "hybrid",
    batch_norm: bool = False,
    activation: argument_types.Activation = None,
    conv_layer: layer_maker.Kind = layers.Conv2DFlipout,
    dense_layer: layer_maker.Kind = layers.DenseLocalReparameterization,
    l2: float = 1e-4,
    kernel_initializer: argument_types.Initializer = None,
    kernel_posterior: argument_types.Posterior = "mean_field",
    bias_posterior: argument_types.Posterior = None,
    kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
    bias_regularizer: argument_types.Regularizer = "gaussian_kl",
    num_train_examples: int | None = None,
    kl_scale: float = 1.0,
    seed: int | None = None,
    name: str | None = None,
) -> keras.Model:
    """Builds a `ResNet` of depth 20.

    Args:
        input_shape: As for `ResNet`.
        num_classes: As for `ResNet`.
        variational: As for `ResNet`.
        batch_norm: As for `ResNet`.
        activation: As for `ResNet`.
        conv_layer: As for `ResNet`.
        dense_layer: As for `ResNet`.
        l2: As for `ResNet`.
        kernel_initializer: As for `ResNet`.
        kernel_posterior: As for `ResNet`.
        bias_posterior: As for `ResNet`.
        kernel_regularizer: As for `ResNet`.
        bias_regularizer: As for `ResNet`.
        num_train_examples: As for `ResNet`.
        kl_scale: As for `ResNet`.
        seed: As for `ResNet`.
        name: As for `ResNet`.

    Returns:
        model: `keras.Model`, `[B, H, W, C]` to logits `[B, num_classes]`.

    Raises:
        ValueError: As for `ResNet`.

    Example:

    ```python
    model = tfp_refine.models.ResNet20((32, 32, 3), num_train_examples=50000)
    ```
    """
    return ResNet(**locals(), depth=20)
