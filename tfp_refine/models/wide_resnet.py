"""Wide residual networks with variational layers."""

from collections.abc import Sequence

import keras

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.layers import argument_types
from tfp_refine.models import layer_maker
from tfp_refine.models import variants


def WideResNet(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    num_classes: int = 10,
    *,
    depth: int = 16,
    width: int = 4,
    variational: str = "hybrid",
    activation: argument_types.Activation = "relu",
    conv_layer: layer_maker.Kind = layers.Conv2DFlipout,
    dense_layer: layer_maker.Kind = layers.DenseLocalReparameterization,
    l2: float = 1e-4,
    kernel_initializer: argument_types.Initializer = "he_normal",
    kernel_posterior: argument_types.Posterior = "mean_field",
    bias_posterior: argument_types.Posterior = "mean_field",
    kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
    bias_regularizer: argument_types.Regularizer = "gaussian_kl",
    num_train_examples: int | None = None,
    kl_scale: float = 1.0,
    seed: int | None = None,
    name: str | None = None,
) -> keras.Model:
    """Builds a wide residual network (Zagoruyko and Komodakis, 2016).

    A 3x3 convolution of 16 filters, three stacks of `(depth - 4) / 6` blocks
    with 16, 32 and 64 times `width` filters, batch normalization, average
    pooling, and a dense layer. A block is two 3x3 convolutions, each after
    batch normalization and the activation. The first block of the last two
    stacks halves the image; where the filters change, the shortcut is a 1x1
    convolution. With the defaults it is the WRN-16-4 of Kristiadi et al.
    (2022), with 256 features before the last layer.

    Which weights have posteriors is chosen as for `ResNet`: none; the second
    convolution of each block, and the dense layer; or both convolutions, and
    the dense layer.

    Args:
        input_shape: Height, width and channels of an image, at least 4x4.
        num_classes: Number of outputs, logits. Defaults to `10`.
        depth: Layers with weights on the way through, `6 n + 4`. Defaults to
            `16`.
        width: Factor of the filters. Defaults to `4`.
        variational: "none", "hybrid" or "full". Defaults to `"hybrid"`.
        activation: Activation. Defaults to `"relu"`.
        conv_layer: As for `AlexNet`.
        dense_layer: As for `AlexNet`.
        l2: As for `AlexNet`.
        kernel_initializer: As for `AlexNet`.
        kernel_posterior: As for `AlexNet`.
        bias_posterior: As for `AlexNet`; the dense layer alone has a bias.
        kernel_regularizer: As for `AlexNet`.
        bias_regularizer: As for `AlexNet`.
        num_train_examples: As for `AlexNet`.
        kl_scale: As for `AlexNet`.
        seed: As for `AlexNet`.
        name: Name of the model. Defaults to `None`, `"wide_resnet_16_4"` and so
            on.

    Returns:
        model: Functional `keras.Model`, not compiled, `[B, H, W, C]` to logits
            `[B, num_classes]`.

    Raises:
        ValueError: If an argument is invalid, or a class of layers does not
            have an argument that is not at its default.

    Example:

    ```python
    model = tfp_refine.models.WideResNet((32, 32, 3), variational="none")
    ```

    Reference:
        - [Zagoruyko and Komodakis, 2016](https://arxiv.org/abs/1605.07146)
        - [Kristiadi et al., 2022](https://arxiv.org/abs/2205.10041)
    """
    input_shape = variants.check_image_shape(input_shape, 4)
    num_classes = _validation.positive_integer("num_classes", num_classes)
    width = _validation.positive_integer("width", width)
    depth = _validation.positive_integer("depth", depth)
    num_blocks, left = divmod(depth - 4, 6)
    if left or num_blocks < 1:
        raise ValueError(
            "`depth` must be 6 n + 4 with n >= 1: 10, 16, 22, ... "
            f"Received: depth={depth}"
        )
    make = variants.Variant(locals())
    inputs = keras.Input(input_shape, name="inputs")
    x = make.conv(16, 3, since=None, use_bias=False, name="conv1")(inputs)
    for stack in range(3):
        for block in range(num_blocks):
            x = _block(
                make,
                x,
                16 * 2**stack * width,
                strides=2 if stack and not block else 1,
                name=f"conv{stack + 2}_block{block + 1}",
            )
    x = make.norm("out")(x)
    return keras.Model(
        inputs,
        variants.head(make, x, num_classes),
        name=f"wide_resnet_{depth}_{width}" if name is None else name,
    )


def _block(make, x, filters, strides, name):
    shortcut, y = x, make.norm(f"{name}_1")(x)
    if x.shape[-1] != filters:
        shortcut = make.shortcut(y, filters, strides, f"{name}_0_conv")
    for index, since in ((1, "full"), (2, "hybrid")):
        if index == 2:
            y = make.norm(f"{name}_2")(y)
        y = make.conv(
            filters,
            3,
            since=since,
            strides=strides if index == 1 else 1,
            use_bias=False,
            name=f"{name}_{index}_conv",
        )(y)
    return keras.layers.Add(name=f"{name}_add")([shortcut, y])
