"""ShuffleNet with variational layers."""

from collections.abc import Sequence

import keras

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.layers import argument_types
from tfp_refine.models import layer_maker
from tfp_refine.models import resnet18
from tfp_refine.models import variants

_STEM_FILTERS = 24


def ShuffleNet(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    num_classes: int = 10,
    *,
    groups: int = 3,
    filters: Sequence[int] = (240, 480, 960),
    blocks: Sequence[int] = (4, 8, 4),
    stem: str = "small",
    variational: str = "hybrid",
    activation: argument_types.Activation = "relu",
    conv_layer: layer_maker.Kind = layers.Conv2DFlipout,
    depthwise_layer: layer_maker.Kind = layers.DepthwiseConv2DFlipout,
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
    name: str | None = "shufflenet",
) -> keras.Model:
    """Builds a ShuffleNet (Zhang et al., 2018), for small or large images.

    A 3x3 convolution of 24 filters, three stacks of blocks, average pooling,
    and a dense layer. A block is a grouped 1x1 convolution to a quarter of the
    block's filters, a shuffle of channels between groups, a depthwise 3x3
    convolution, and a grouped 1x1 convolution, each with batch normalization.
    The first block of a stack halves the image, and appends its outputs to the
    pooled inputs; the first of all has one group in its first convolution. With
    the defaults it is the paper's ShuffleNet of 3 groups.

    Which weights have posteriors:

    - `"none"`: none, an ordinary network;
    - `"hybrid"`: the last convolution of each block, and the dense layer;
    - `"full"`: the three convolutions of each block, and the dense layer.

    Args:
        input_shape: Height, width and channels of an image, at least 8x8, or
            32x32 with the stem for large images.
        num_classes: Number of outputs, logits. Defaults to `10`.
        groups: Groups of the 1x1 convolutions, a divisor of 24. Defaults to
            `3`.
        filters: Filters of the blocks of each of three stacks, which grow from
            24, multiples of `4 * groups`. The paper has `(200, 400, 800)` for 2
            groups, and `(240, 480, 960)` for 3, the default.
        blocks: Blocks of each stack. Defaults to `(4, 8, 4)`.
        stem: "small", for images of 32x32: the first convolution has strides of
            1; or "large", that of the paper: strides of 2, then max pooling.
            Defaults to `"small"`.
        variational: One of the above. Defaults to `"hybrid"`.
        activation: Activation. Defaults to `"relu"`.
        conv_layer: As for `AlexNet`.
        depthwise_layer: The same of the depthwise convolutions, as
            `keras.layers.DepthwiseConv2D`.
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
        name: Name of the model.

    Returns:
        model: Functional `keras.Model`, not compiled, `[B, H, W, C]` to logits
            `[B, num_classes]`.

    Raises:
        ValueError: If an argument is invalid, or a class of layers does not
            have an argument that is not at its default.

    Example:

    ```python
    model = tfp_refine.models.ShuffleNet((32, 32, 3), num_train_examples=50000)
    ```

    Reference:
        - [Zhang et al., 2018](https://arxiv.org/abs/1707.01083)
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX)
    """
    _validation.one_of("stem", stem, resnet18.STEMS)
    input_shape = variants.check_image_shape(
        input_shape, 8 if stem == "small" else 32
    )
    num_classes = _validation.positive_integer("num_classes", num_classes)
    groups = _validation.positive_integer("groups", groups)
    filters = _check_filters(filters, groups)
    blocks = _validation.positive_integers("blocks", blocks)
    if len(blocks) != 3:
        raise ValueError(
            "`blocks` must hold the numbers of blocks of three stacks. "
            f"Received: blocks={blocks}"
        )
    make = variants.Variant(locals())
    inputs = keras.Input(input_shape, name="inputs")
    x = make.conv(
        _STEM_FILTERS,
        3,
        since=None,
        strides=1 if stem == "small" else 2,
        use_bias=False,
        name="conv1",
    )(inputs)
    x = make.norm("conv1")(x)
    if stem == "large":
        x = variants.pool(keras.layers.MaxPooling2D, 3, 2, "conv1_pool")(x)
    for stack, (width, count) in enumerate(zip(filters, blocks, strict=True)):
        for block in range(count):
            is_first = stack == block == 0
            x = _block(
                make,
                x,
                width,
                strides=1 if block else 2,
                groups=(1 if is_first else groups, groups),
                name=f"conv{stack + 2}_block{block + 1}",
            )
    return keras.Model(inputs, variants.head(make, x, num_classes), name=name)


def _check_filters(filters, groups):
    filters = _validation.positive_integers("filters", filters)
    before = (_STEM_FILTERS, *filters)
    grow = all(one < other for one, other in zip(before, filters, strict=False))
    if len(filters) != 3 or not grow:
        raise ValueError(
            "`filters` must hold three integers that grow from "
            f"{_STEM_FILTERS}. Received: filters={filters}"
        )
    if _STEM_FILTERS % groups or any(width % (4 * groups) for width in filters):
        raise ValueError(
            f"`groups` must divide {_STEM_FILTERS} and a quarter of each of "
            f"`filters`. Received: groups={groups}, filters={filters}"
        )
    return filters


def _block(make, x, filters, strides, groups, name):
    shortcut, width = x, filters // 4
    last = filters
    if strides > 1:
        last -= x.shape[-1]
        shortcut = variants.pool(
            keras.layers.AveragePooling2D, 3, strides, f"{name}_pool"
        )(x)
    x = make.conv(
        width,
        1,
        since="full",
        groups=groups[0],
        use_bias=False,
        name=f"{name}_1_conv",
    )(x)
    x = make.norm(f"{name}_1")(x)
    x = _shuffled(x, groups[1], f"{name}_shuffle")
    x = make.depthwise(3, strides=strides, name=f"{name}_2_conv")(x)
    x = make.norm(f"{name}_2", activation=False)(x)
    x = make.conv(
        last,
        1,
        since="hybrid",
        groups=groups[1],
        use_bias=False,
        name=f"{name}_3_conv",
    )(x)
    x = make.norm(f"{name}_3", activation=False)(x)
    if strides > 1:
        x = keras.layers.Concatenate(name=f"{name}_concat")([shortcut, x])
    else:
        x = keras.layers.Add(name=f"{name}_add")([shortcut, x])
    return make.activation(f"{name}_out")(x)


def _shuffled(x, groups, name):
    """Gives each group of channels some of all groups."""
    _, height, width, channels = x.shape
    x = keras.layers.Reshape(
        (height, width, groups, channels // groups), name=f"{name}_split"
    )(x)
    x = keras.layers.Permute((1, 2, 4, 3), name=name)(x)
    return keras.layers.Reshape(
        (height, width, channels), name=f"{name}_merge"
    )(x)
