"""LeNet-5 with variational layers."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.models import layer_maker


def LeNet5(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    num_classes: int = 10,
    *,
    widths: Sequence[int] = (6, 16, 120, 84),
    padding: str = "same",
    activation: Any = "relu",
    conv_layer: Callable = layers.Conv2DFlipout,
    dense_layer: Callable = layers.DenseLocalReparameterization,
    seed: int | None = None,
    name: str | None = "lenet5",
    **layer_arguments: Any,
) -> keras.Model:
    """Builds LeNet-5, with a posterior for every weight and bias.

    5x5 convolutions, of which the first two are followed by max pooling, then
    a hidden dense layer and the outputs. With the defaults it is that of
    Havasi et al. (2021), 0.55 million weights for an image of MNIST's size, a
    mean and a scale each; the wider one of Caffe is `widths=(20, 50, 500),
    padding="valid"`.

    Args:
        input_shape: Height, width and channels of an image.
        num_classes: Number of outputs, logits. Defaults to `10`.
        widths: Filters of two or more convolutions, then units of the hidden
            dense layer. Defaults to `(6, 16, 120, 84)`.
        padding: Of the convolutions, `"same"` or `"valid"`.
        activation: Activation of the hidden layers. Defaults to `"relu"`.
        conv_layer: Class of the convolutions, called as `keras.layers.Conv2D`.
        dense_layer: Class of the dense layers, called as `keras.layers.Dense`.
        seed: Integer that fixes the initial weights and the noise; each layer
            has streams of its own.
        name: Name of the model.
        **layer_arguments: Arguments of each layer, such as
            `kernel_regularizer`, `kernel_posterior`, `num_train_examples`.

    Returns:
        model: Functional `keras.Model`, not compiled, `[B, H, W, C]` to logits
            `[B, num_classes]`.

    Raises:
        ValueError: If `input_shape` has not 3 sizes, or an argument is invalid.

    Example:

    ```python
    model = tfp_refine.models.LeNet5((28, 28, 1), num_train_examples=60000)
    model.compile(
        "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    ```

    Reference:
        - [LeCun et al., 1998](https://doi.org/10.1109/5.726791)
        - [Havasi et al., 2021](https://doi.org/10.3390/e23111475)
        - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961)
    """
    input_shape = _validation.image_shape("input_shape", input_shape)
    num_classes = _validation.positive_integer("num_classes", num_classes)
    widths = _validation.positive_integers("widths", widths)
    if len(widths) < 3:
        raise ValueError(
            "`widths` must hold the filters of two or more convolutions and "
            f"the units of a dense layer. Received: widths={widths}"
        )
    make = layer_maker.LayerMaker(seed)
    layer_arguments.setdefault("kernel_initializer", "he_normal")
    *filters, units = widths
    inputs = keras.Input(input_shape, name="inputs")
    x = inputs
    for index, width in enumerate(filters):
        x = make(
            conv_layer,
            width,
            5,
            padding=padding,
            data_format="channels_last",
            activation=activation,
            name=f"conv_{index}",
            **layer_arguments,
        )(x)
        if index < 2:
            x = keras.layers.MaxPooling2D(
                2,
                padding="same",
                data_format="channels_last",
                name=f"pool_{index}",
            )(x)
    x = keras.layers.Flatten(data_format="channels_last", name="flatten")(x)
    x = make(
        dense_layer,
        units,
        activation=activation,
        name="hidden",
        **layer_arguments,
    )(x)
    outputs = make(dense_layer, num_classes, name="outputs", **layer_arguments)(
        x
    )
    return keras.Model(inputs, outputs, name=name)


def LeNet5MNF(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    num_classes: int = 10,
    *,
    widths: Sequence[int] = (20, 50, 500),
    padding: str = "valid",
    max_std: float | None = 0.5,
    name: str | None = "lenet5_mnf",
    **arguments: Any,
) -> keras.Model:
    """Builds LeNet-5 with a multiplicative normalizing flow in each layer.

    With the defaults it is that of Louizos and Welling (2017) for MNIST; for
    CIFAR-10 they take `widths=(192, 192, 1000), max_std=0.4`. With
    `flow_length=0` the posterior is mean-field, and all else the same: their
    baseline FFG.

    Args:
        input_shape: Height, width and channels of an image.
        num_classes: Number of outputs, logits. Defaults to `10`.
        widths: As for `LeNet5`. Defaults to `(20, 50, 500)`.
        padding: Of the convolutions. Defaults to `"valid"`.
        max_std: Largest standard deviation that weights have in the outputs.
            Defaults to `0.5`.
        name: Name of the model.
        **arguments: Others of `LeNet5` and of the layers, such as
            `num_train_examples`, `flow_length`, `seed`.

    Returns:
        model: Functional `keras.Model`, not compiled, `[B, H, W, C]` to logits
            `[B, num_classes]`.

    Raises:
        ValueError: If an argument is invalid.

    Example:

    ```python
    model = tfp_refine.models.LeNet5MNF((28, 28, 1), num_train_examples=60000)
    ```

    Reference:
        - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961)
    """
    return LeNet5(
        input_shape,
        num_classes,
        widths=widths,
        padding=padding,
        conv_layer=layers.Conv2DMNF,
        dense_layer=layers.DenseMNF,
        max_std=max_std,
        name=name,
        **arguments,
    )
