"""A learned observation noise that does not depend on the inputs."""

import keras

from tfp_refine import _validation
from tfp_refine.math import softplus


@keras.saving.register_keras_serializable(package="tfp_refine")
class HomoscedasticNoise(keras.layers.Layer):
    """Appends one learned noise scale for each output of a regression model.

    The result has the layout of a model with two heads, `[means, raw scales]`,
    where the raw scales are the same for all inputs: train it with
    `losses.HeteroscedasticGaussianNLL`, whose default reads a raw scale as
    `softplus` does. The scale is a point estimate, trained with the model as an
    ordinary weight, and stays as it is in refinement.

    Args:
        initial_scale: Standard deviation of the noise that training starts
            from. Defaults to `1.0`, for standardized targets.
        **kwargs: Arguments of `keras.layers.Layer`.

    Input shape:
        `[batch_size, ..., D]`, the means.

    Output shape:
        `[batch_size, ..., 2 * D]`.

    Example:
    ```python
    outputs = tfp_refine.layers.HomoscedasticNoise()(means)
    model = keras.Model(inputs, outputs)
    model.compile(loss=tfp_refine.losses.HeteroscedasticGaussianNLL())
    ```

    Raises:
        ValueError: If `initial_scale` is not a positive finite number.
    """

    def __init__(self, initial_scale=1.0, **kwargs):
        super().__init__(**kwargs)
        self.initial_scale = _validation.positive(
            "initial_scale", initial_scale
        )
        self.supports_masking = True

    def build(self, input_shape):
        raw = softplus.inverse_of_float(self.initial_scale)
        self.untransformed_scale = self.add_weight(
            name="untransformed_scale",
            shape=(input_shape[-1],),
            initializer=keras.initializers.Constant(raw),
        )

    def call(self, inputs):
        raw = keras.ops.cast(self.untransformed_scale, inputs.dtype)
        raw = keras.ops.broadcast_to(raw, keras.ops.shape(inputs))
        return keras.ops.concatenate([inputs, raw], axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 2 * input_shape[-1])

    def get_config(self):
        return {**super().get_config(), "initial_scale": self.initial_scale}
