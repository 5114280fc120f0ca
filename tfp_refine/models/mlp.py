"""Multilayer perceptrons with variational layers."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.models import layer_maker


def MLP(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    outputs: int = 1,
    *,
    hidden: Sequence[int] = (50,),
    activation: Any = "relu",
    layer: Callable = layers.DenseLocalReparameterization,
    noise_scale: Any = None,
    seed: int | None = None,
    name: str | None = "mlp",
    **layer_arguments: Any,
) -> keras.Model:
    """Builds a multilayer perceptron whose dense layers are variational.

    Args:
        input_shape: Shape of an input example, a tuple; more than one axis is
            flattened.
        outputs: Number of outputs, linear: logits or means. Defaults to `1`.
        hidden: Units of each hidden layer. Defaults to `(50,)`.
        activation: Activation of the hidden layers. Defaults to `"relu"`.
        layer: Class of the layers, called as `keras.layers.Dense`.
        noise_scale: For regression with a learned homoscedastic noise: its
            initial standard deviation; the model then ends in
            `layers.HomoscedasticNoise`. Defaults to `None`, without.
        seed: Integer that fixes the initial weights and the noise; each layer
            has streams of its own.
        name: Name of the model.
        **layer_arguments: Arguments of each layer, such as
            `kernel_regularizer`, `kernel_posterior`, `num_train_examples`.

    Returns:
        model: Functional `keras.Model`, not compiled. `[B, *input_shape]` to
            `[B, outputs]`, or to `[B, 2 * outputs]` with `noise_scale`.

    Raises:
        ValueError: If an argument is invalid, such as `hidden` that does not
            hold positive integers.

    Example:

    ```python
    model = tfp_refine.models.MLP((13,), hidden=(50, 50), noise_scale=1.0)
    model.compile(loss=tfp_refine.losses.HeteroscedasticGaussianNLL())
    ```
    """
    input_shape = _validation.positive_integers("input_shape", input_shape)
    hidden = _validation.positive_integers("hidden", hidden)
    outputs = _validation.positive_integer("outputs", outputs)
    if noise_scale is not None:
        noise_scale = _validation.positive("noise_scale", noise_scale)
    inputs = keras.Input(input_shape, name="inputs")
    x = inputs
    if len(input_shape) > 1:
        x = keras.layers.Flatten(data_format="channels_last", name="flatten")(x)
    widths = (*hidden, outputs)
    make = layer_maker.LayerMaker(seed)
    for index, units in enumerate(widths):
        last = index == len(widths) - 1
        x = make(
            layer,
            units,
            activation=None if last else activation,
            name="outputs" if last else f"hidden_{index}",
            **layer_arguments,
        )(x)
    if noise_scale is not None:
        x = layers.HomoscedasticNoise(noise_scale, name="noise")(x)
    return keras.Model(inputs, x, name=name)
