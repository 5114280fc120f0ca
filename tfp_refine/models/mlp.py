"""Multilayer perceptrons with variational layers."""

from collections.abc import Sequence

import keras

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.layers import argument_types
from tfp_refine.models import layer_maker


def MLP(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    outputs: int = 1,
    *,
    hidden: Sequence[int] = (50,),
    activation: argument_types.Activation = "relu",
    layer: layer_maker.Kind = layers.DenseLocalReparameterization,
    noise_scale: float | None = None,
    kernel_initializer: argument_types.Initializer = "glorot_uniform",
    kernel_posterior: argument_types.Posterior = "mean_field",
    bias_posterior: argument_types.Posterior = "mean_field",
    kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
    bias_regularizer: argument_types.Regularizer = "gaussian_kl",
    num_train_examples: int | None = None,
    kl_scale: float = 1.0,
    seed: int | None = None,
    name: str | None = "mlp",
) -> keras.Model:
    """Builds a multilayer perceptron whose dense layers are variational.

    Args:
        input_shape: Shape of an input example, a tuple; more than one axis is
            flattened.
        outputs: Number of outputs, linear: logits or means. Defaults to `1`.
        hidden: Units of each hidden layer. Defaults to `(50,)`.
        activation: Activation of the hidden layers. Defaults to `"relu"`.
        layer: Class of the layers, called as `keras.layers.Dense`, or a
            `functools.partial` of one with more of its arguments.
        noise_scale: For regression with a learned homoscedastic noise: its
            initial standard deviation; the model then ends in
            `layers.HomoscedasticNoise`. Defaults to `None`, without.
        kernel_initializer: Initializer of the kernels' means. Defaults to
            `"glorot_uniform"`.
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
        model: Functional `keras.Model`, not compiled. `[B, *input_shape]` to
            `[B, outputs]`, or to `[B, 2 * outputs]` with `noise_scale`.

    Raises:
        ValueError: If an argument is invalid, or `layer` does not have an
            argument that is not at its default.

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
        noise_scale = _validation.scale("noise_scale", noise_scale)
    inputs = keras.Input(input_shape, name="inputs")
    x = inputs
    if len(input_shape) > 1:
        x = keras.layers.Flatten(data_format="channels_last", name="flatten")(x)
    widths = (*hidden, outputs)
    make = layer_maker.LayerMaker(seed, locals())
    for index, units in enumerate(widths):
        last = index == len(widths) - 1
        x = make(
            layer,
            units,
            activation=None if last else activation,
            name="outputs" if last else f"hidden_{index}",
        )(x)
    if noise_scale is not None:
        x = layers.HomoscedasticNoise(noise_scale, name="noise")(x)
    return keras.Model(inputs, x, name=name)
