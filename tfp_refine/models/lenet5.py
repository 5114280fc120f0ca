"""LeNet-5 with variational layers."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import keras

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.layers import argument_types
from tfp_refine.layers import multiplicative_posterior
from tfp_refine.models import layer_maker


def LeNet5(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    num_classes: int = 10,
    *,
    widths: Sequence[int] = (6, 16, 120, 84),
    padding: str = "same",
    activation: argument_types.Activation = "relu",
    conv_layer: layer_maker.Kind = layers.Conv2DFlipout,
    dense_layer: layer_maker.Kind = layers.DenseLocalReparameterization,
    kernel_initializer: argument_types.Initializer = "he_normal",
    kernel_posterior: argument_types.Posterior = "mean_field",
    bias_posterior: argument_types.Posterior = "mean_field",
    kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
    bias_regularizer: argument_types.Regularizer = "gaussian_kl",
    num_train_examples: int | None = None,
    kl_scale: float = 1.0,
    seed: int | None = None,
    name: str | None = "lenet5",
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
        conv_layer: Class of the convolutions, called as `keras.layers.Conv2D`,
            or a `functools.partial` of one with more of its arguments.
        dense_layer: The same of the dense layers, as `keras.layers.Dense`.
        kernel_initializer: Initializer of the kernels' means. Defaults to
            `"he_normal"`.
        kernel_posterior: Posterior family of the kernels, its name, or `None`
            for point estimates. Defaults to `"mean_field"`.
        bias_posterior: The same of the biases.
        kernel_regularizer: KL regularizer of the kernels, or its name. Defaults
            to `"gaussian_kl"`.
        bias_regularizer: The same of the biases.
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
    make = layer_maker.LayerMaker(seed, locals())
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
        )(x)
        if index < 2:
            x = keras.layers.MaxPooling2D(
                2,
                padding="same",
                data_format="channels_last",
                name=f"pool_{index}",
            )(x)
    x = keras.layers.Flatten(data_format="channels_last", name="flatten")(x)
    x = make(dense_layer, units, activation=activation, name="hidden")(x)
    outputs = make(dense_layer, num_classes, name="outputs")(x)
    return keras.Model(inputs, outputs, name=name)


def LeNet5MNF(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    num_classes: int = 10,
    *,
    widths: Sequence[int] = (20, 50, 500),
    padding: str = "valid",
    activation: argument_types.Activation = "relu",
    kernel_initializer: argument_types.Initializer = "he_normal",
    bias_posterior: argument_types.Posterior = "mean_field",
    kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
    bias_regularizer: argument_types.Regularizer = "gaussian_kl",
    flow_length: int = 2,
    flow_units: int = 50,
    auxiliary_flow_length: int = 2,
    auxiliary_flow_units: int = 100,
    masks: str = "random",
    auxiliary: str = "log_precision",
    log_var_init: float = -9.0,
    z_var_init: float = 0.01,
    max_std: float | None = 0.5,
    inference_estimator: str = "local_reparameterization",
    num_train_examples: int | None = None,
    kl_scale: float = 1.0,
    seed: int | None = None,
    name: str | None = "lenet5_mnf",
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
        activation: Activation of the hidden layers. Defaults to `"relu"`.
        kernel_initializer: Initializer of the kernels' means. Defaults to
            `"he_normal"`.
        bias_posterior: Posterior family of the biases, its name, or `None` for
            point estimates. Defaults to `"mean_field"`.
        kernel_regularizer: KL regularizer of the kernels, or its name. Defaults
            to `"gaussian_kl"`.
        bias_regularizer: The same of the biases.
        flow_length: Steps of the flow of the multipliers. Defaults to `2`.
        flow_units: Hidden units of each step. Defaults to `50`.
        auxiliary_flow_length: Steps of the flow of `r(z|W)`. Defaults to `2`.
        auxiliary_flow_units: Hidden units of each of them. Defaults to `100`.
        masks: As for `layers.DenseMNF`. Defaults to `"random"`.
        auxiliary: As for `layers.DenseMNF`. Defaults to `"log_precision"`.
        log_var_init: Initial log variance of the weights given the multipliers.
            Defaults to `-9.0`.
        z_var_init: Initial variance of the multipliers. Defaults to `0.01`.
        max_std: Largest standard deviation that weights have in the outputs.
            Defaults to `0.5`.
        inference_estimator: As for `layers.DenseMNF`. Defaults to
            `"local_reparameterization"`.
        num_train_examples: Number of training examples. Can be set later, by
            `layers.set_num_train_examples`.
        kl_scale: Factor on the KL divergence. Defaults to `1.0`.
        seed: As for `LeNet5`.
        name: Name of the model.

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
    arguments: dict[str, Any] = dict(locals())
    flow = {
        field.name: arguments.pop(field.name)
        for field in dataclasses.fields(multiplicative_posterior.FlowSettings)
    }
    return LeNet5(
        conv_layer=functools.partial(layers.Conv2DMNF, **flow),
        dense_layer=functools.partial(layers.DenseMNF, **flow),
        **arguments,
    )
