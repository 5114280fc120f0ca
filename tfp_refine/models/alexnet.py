"""AlexNet for small images, with variational layers."""

from collections.abc import Sequence

import keras

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.layers import argument_types
from tfp_refine.models import layer_maker
from tfp_refine.models import variants

_KERNEL_SIZES = (11, 5, 3, 3, 3)
# An image of 13 has 4 positions after the first convolution, and 1 after both
# poolings.
_LEAST = 13


def AlexNet(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    num_classes: int = 10,
    *,
    widths: Sequence[int] = (96, 256, 384, 384, 256, 256, 256),
    variational: str = "full",
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
    name: str | None = "alexnet",
) -> keras.Model:
    """Builds AlexNet for small images, of 32x32 or 96x96 pixels.

    Five convolutions, the first with strides of 4, max pooling by 2 after the
    first two, and three dense layers. Filters are those of Krizhevsky et al.
    (2012); the two hidden dense layers have 256 units, as in the code of Rossi
    et al. (2019), in place of 4096 (`widths=(96, 256, 384, 384, 256, 4096,
    4096)`).

    Which weights have posteriors:

    - `"none"`: none, an ordinary network;
    - `"hybrid"`: those of the dense layers;
    - `"full"`: all.

    Args:
        input_shape: Height, width and channels of an image, at least 13x13.
        num_classes: Number of outputs, logits. Defaults to `10`.
        widths: Filters of the five convolutions, then units of the two hidden
            dense layers.
        variational: One of the above. Defaults to `"full"`.
        activation: Activation of the hidden layers. Defaults to `"relu"`.
        conv_layer: Class of the Bayesian convolutions, called as
            `keras.layers.Conv2D`, or a `functools.partial` of one with more of
            its arguments.
        dense_layer: The same of the dense layers, as `keras.layers.Dense`.
        l2: Factor of the L2 penalty of kernels without posteriors. Defaults to
            `1e-4`.
        kernel_initializer: Initializer of the kernels, or of their means.
            Defaults to `"he_normal"`.
        kernel_posterior: Posterior family of the Bayesian layers' kernels, its
            name, or `None` for point estimates. Defaults to `"mean_field"`.
        bias_posterior: The same of their biases.
        kernel_regularizer: KL regularizer of these kernels, or its name.
            Defaults to `"gaussian_kl"`.
        bias_regularizer: The same of these biases.
        num_train_examples: Number of training examples. Can be set later, by
            `layers.set_num_train_examples`.
        kl_scale: Factor on the KL divergence. Defaults to `1.0`.
        seed: Integer that fixes the initial weights and the noise; each layer
            has streams of its own.
        name: Name of the model.

    Returns:
        model: Functional `keras.Model`, not compiled, `[B, H, W, C]` to logits
            `[B, num_classes]`.

    Raises:
        ValueError: If an argument is invalid, or a class of layers does not
            have an argument that is not at its default.

    Example:

    ```python
    model = tfp_refine.models.AlexNet((32, 32, 3), num_train_examples=50000)
    ```

    Reference:
        - [Krizhevsky et al., 2012](https://doi.org/10.1145/3065386)
        - [Rossi et al., 2019](https://arxiv.org/abs/1810.08083)
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX)
    """
    input_shape = variants.check_image_shape(input_shape, _LEAST)
    num_classes = _validation.positive_integer("num_classes", num_classes)
    widths = _validation.positive_integers("widths", widths)
    if len(widths) != 7:
        raise ValueError(
            "`widths` must hold the filters of five convolutions and the units "
            f"of two dense layers. Received: widths={widths}"
        )
    make = variants.Variant(locals())
    inputs = keras.Input(input_shape, name="inputs")
    x = inputs
    for index, size in enumerate(_KERNEL_SIZES):
        x = make.conv(
            widths[index],
            size,
            since="full",
            strides=1 if index else 4,
            activation=activation,
            name=f"conv_{index}",
        )(x)
        if index < 2:
            x = keras.layers.MaxPooling2D(
                2, data_format="channels_last", name=f"pool_{index}"
            )(x)
    x = keras.layers.Flatten(data_format="channels_last", name="flatten")(x)
    for index, units in enumerate(widths[5:]):
        x = make.dense(
            units, since="hybrid", activation=activation, name=f"hidden_{index}"
        )(x)
    outputs = make.dense(num_classes, since="hybrid", name="outputs")(x)
    return keras.Model(inputs, outputs, name=name)
