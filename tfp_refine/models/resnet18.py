"""ResNet-18 with variational layers."""

from collections.abc import Sequence

import keras

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.layers import argument_types
from tfp_refine.models import layer_maker
from tfp_refine.models import variants

STEMS = ("small", "large")


def ResNet18(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    num_classes: int = 10,
    *,
    filters: int = 64,
    stem: str = "small",
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
    name: str | None = "resnet18",
) -> keras.Model:
    """Builds ResNet-18 (He et al., 2015, table 1), for small or large images.

    A first convolution, four stacks of two blocks with `filters`, and 2, 4 and
    8 times as many, average pooling, and a dense layer. A block is two 3x3
    convolutions, each with batch normalization. The first block of the last
    three stacks halves the image; there the shortcut is a 1x1 convolution.

    Which weights have posteriors is chosen as for `ResNet`: none; the second
    convolution of each block, and the dense layer; or both convolutions, and
    the dense layer.

    Args:
        input_shape: Height, width and channels of an image, at least 8x8, or
            32x32 with the stem for large images.
        num_classes: Number of outputs, logits. Defaults to `10`.
        filters: Filters of the first stack. Defaults to `64`.
        stem: "small", for images of 32x32: the first convolution is 3x3; or
            "large", that of the paper: 7x7 with strides of 2, then max pooling.
            Defaults to `"small"`.
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
        name: Name of the model.

    Returns:
        model: Functional `keras.Model`, not compiled, `[B, H, W, C]` to logits
            `[B, num_classes]`.

    Raises:
        ValueError: If an argument is invalid, or a class of layers does not
            have an argument that is not at its default.

    Example:

    ```python
    model = tfp_refine.models.ResNet18((32, 32, 3), num_train_examples=50000)
    ```

    Reference:
        - [He et al., 2015](https://arxiv.org/abs/1512.03385)
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX)
    """
    _validation.one_of("stem", stem, STEMS)
    input_shape = variants.check_image_shape(
        input_shape, 8 if stem == "small" else 32
    )
    num_classes = _validation.positive_integer("num_classes", num_classes)
    filters = _validation.positive_integer("filters", filters)
    make = variants.Variant(locals())
    inputs = keras.Input(input_shape, name="inputs")
    x = make.conv(
        filters,
        3 if stem == "small" else 7,
        since=None,
        strides=1 if stem == "small" else 2,
        use_bias=False,
        name="conv1",
    )(inputs)
    x = make.norm("conv1")(x)
    if stem == "large":
        x = variants.pool(keras.layers.MaxPooling2D, 3, 2, "conv1_pool")(x)
    for stack in range(4):
        for block in range(2):
            x = _block(
                make,
                x,
                filters * 2**stack,
                strides=2 if stack and not block else 1,
                name=f"conv{stack + 2}_block{block + 1}",
            )
    return keras.Model(inputs, variants.head(make, x, num_classes), name=name)


def _block(make, x, filters, strides, name):
    shortcut = x
    if x.shape[-1] != filters:
        shortcut = make.shortcut(x, filters, strides, f"{name}_0_conv")
        shortcut = make.norm(f"{name}_0", activation=False)(shortcut)
    for index, since in ((1, "full"), (2, "hybrid")):
        x = make.conv(
            filters,
            3,
            since=since,
            strides=strides if index == 1 else 1,
            use_bias=False,
            name=f"{name}_{index}_conv",
        )(x)
        x = make.norm(f"{name}_{index}", activation=index == 1)(x)
    x = keras.layers.Add(name=f"{name}_add")([shortcut, x])
    return make.activation(f"{name}_out")(x)
