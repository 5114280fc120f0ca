"""Layers of Transformers that encode a sequence."""

import keras

from tfp_refine import _validation
from tfp_refine.layers import argument_types


@keras.saving.register_keras_serializable(package="tfp_refine")
class ClassToken(keras.layers.Layer):
    """Puts one learned token before each sequence, `[B, T, D]`.

    A mask gets a `True` before its own.
    """

    def __init__(
        self,
        initializer: argument_types.Initializer = "zeros",
        *,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        self.initializer = keras.initializers.get(initializer)
        self.supports_masking = True

    def build(self, input_shape):
        self.token = self.add_weight(
            (1, 1, input_shape[-1]), self.initializer, name="token"
        )

    def call(self, inputs):
        token = keras.ops.repeat(self.token, keras.ops.shape(inputs)[0], axis=0)
        return keras.ops.concatenate([token, inputs], axis=1)

    def compute_mask(self, inputs, previous_mask=None):
        if previous_mask is None:
            return None
        return keras.ops.pad(previous_mask, [(0, 0), (1, 0)], "constant", True)

    def compute_output_shape(self, input_shape):
        batch, length, width = input_shape
        return batch, None if length is None else length + 1, width

    def get_config(self):
        initializer = keras.saving.serialize_keras_object(self.initializer)
        return super().get_config() | {"initializer": initializer}


@keras.saving.register_keras_serializable(package="tfp_refine")
class PositionEmbedding(keras.layers.Layer):
    """Adds a learned vector to each position of sequences, `[B, T, D]`."""

    def __init__(
        self,
        initializer: argument_types.Initializer = "zeros",
        *,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        self.initializer = keras.initializers.get(initializer)
        self.supports_masking = True

    def build(self, input_shape):
        self.positions = self.add_weight(
            tuple(input_shape[1:]), self.initializer, name="positions"
        )

    def call(self, inputs):
        return inputs + self.positions

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        initializer = keras.saving.serialize_keras_object(self.initializer)
        return super().get_config() | {"initializer": initializer}


def check(width, depth, num_heads, hidden_units):
    """Checks the sizes of an encoder."""
    _validation.all_positive_integers(
        width=width,
        depth=depth,
        num_heads=num_heads,
        hidden_units=hidden_units,
    )
    if width % num_heads:
        raise ValueError(
            "`num_heads` must divide `width`. "
            f"Received: num_heads={num_heads}, width={width}"
        )


def encode(make, x, depth, num_heads, hidden_units, activation):
    """Encodes sequences `[B, T, D]`; returns the first token, `[B, D]`.

    A learned token and positions, then pre-norm blocks: attention and two dense
    layers, each around a shortcut.
    """
    width = x.shape[-1]
    normal = keras.initializers.TruncatedNormal(stddev=0.02)
    x = make.make(ClassToken, initializer=normal, name="class_token")(x)
    x = make.make(PositionEmbedding, initializer=normal, name="positions")(x)
    for index in range(depth):
        name = f"block_{index}"
        y = _norm(f"{name}_attention_norm")(x)
        y = make(
            "attention_layer",
            keras.layers.MultiHeadAttention,
            num_heads,
            width // num_heads,
            since="full",
            name=f"{name}_attention",
        )(y, y)
        x = keras.layers.Add(name=f"{name}_attention_add")([x, y])
        y = _norm(f"{name}_norm")(x)
        y = make.dense(
            hidden_units,
            since="full",
            activation=activation,
            name=f"{name}_hidden",
        )(y)
        y = make.dense(width, since="hybrid", name=f"{name}_output")(y)
        x = keras.layers.Add(name=f"{name}_add")([x, y])
    return _norm("norm")(x)[:, 0]


def _norm(name):
    return keras.layers.LayerNormalization(epsilon=1e-6, name=name)
