"""Learned observation noise that does not depend on the inputs."""

from typing import Any

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import argument_checks
from tfp_refine.layers import argument_types
from tfp_refine.layers import docstrings
from tfp_refine.layers import shown_layer
from tfp_refine.math import softplus


@docstrings.public_layer
class HomoscedasticNoise(shown_layer.ShownLayer):
    """Layer that appends one learned noise scale for each output.

    The result has the layout of a model with two heads, `[means, raw scales]`,
    where the raw scales are the same for all inputs: train it with
    `losses.HeteroscedasticGaussianNLL`, whose default reads a raw scale as
    `softplus` does. The scale is a point estimate, trained with the model as an
    ordinary weight, and unchanged by refinement unless `refine_deterministic`.

    {args}

    Input shape:
        `[batch_size, ..., D]`, the means.

    Output shape:
        `[batch_size, ..., 2 * D]`.

    Example:
    ```python
    inputs = keras.Input((13,))
    means = keras.layers.Dense(1)(inputs)
    outputs = tfp_refine.layers.HomoscedasticNoise()(means)
    model = keras.Model(inputs, outputs)
    model.compile(loss=tfp_refine.losses.HeteroscedasticGaussianNLL())
    ```

    Raises:
        ValueError: If `initial_scale` is not a positive finite number.
    """

    def __init__(
        self,
        initial_scale: float = 1.0,
        *,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        argument_checks.check(locals())
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        self.initial_scale = _validation.scale("initial_scale", initial_scale)
        self.supports_masking = True

    def build(self, input_shape: argument_types.Shape) -> None:
        raw = softplus.inverse_of_float(self.initial_scale)
        self.untransformed_scale = self.add_weight(
            name="untransformed_scale",
            shape=(input_shape[-1],),
            initializer=keras.initializers.Constant(raw),
        )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        raw = keras.ops.cast(self.untransformed_scale, inputs.dtype)
        raw = keras.ops.broadcast_to(raw, keras.ops.shape(inputs))
        return keras.ops.concatenate([inputs, raw], axis=-1)

    def compute_output_shape(
        self, input_shape: argument_types.Shape
    ) -> argument_types.Shape:
        size = input_shape[-1]
        return (*input_shape[:-1], None if size is None else 2 * size)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "initial_scale": self.initial_scale}
