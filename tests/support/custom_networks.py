"""Small networks as people write them: custom blocks, subclassed models."""

import keras

L = keras.layers
ops = keras.ops
register = keras.saving.register_keras_serializable("tests")


@register
class EncoderBlock(L.Layer):
    """A pre-norm block that makes its layers in `build`, as keras_hub does."""

    def __init__(self, num_heads, hidden_dim, **options):
        super().__init__(**options)
        self.num_heads, self.hidden_dim = num_heads, hidden_dim
        self.supports_masking = True

    def build(self, shape):
        width, policy = shape[-1], {"dtype": self.dtype_policy}
        self._attention_norm = L.LayerNormalization(
            name="attention_norm", **policy
        )
        self._attention_norm.build(shape)
        self._attention = L.MultiHeadAttention(
            self.num_heads, width // self.num_heads, name="attention", **policy
        )
        self._attention.build(shape, shape)
        self._norm = L.LayerNormalization(name="norm", **policy)
        self._norm.build(shape)
        self._intermediate = L.Dense(
            self.hidden_dim, "gelu", name="intermediate", **policy
        )
        self._intermediate.build(shape)
        self._output = L.Dense(width, name="output", **policy)
        self._output.build((*shape[:-1], self.hidden_dim))

    def call(self, inputs, mask=None, training=None):
        hidden = self._attention_norm(inputs)
        hidden = self._attention(
            hidden, hidden, key_mask=mask, training=training
        )
        hidden = hidden + inputs
        outputs = self._intermediate(self._norm(hidden))
        return hidden + self._output(outputs, training=training)

    def get_config(self):
        return super().get_config() | {
            "num_heads": self.num_heads,
            "hidden_dim": self.hidden_dim,
        }


@register
class PatchEncoder(L.Layer):
    """Patches with a class token and positions, weights of its own."""

    def __init__(self, width, size, **options):
        super().__init__(**options)
        self.width, self.size = width, size
        self.project = L.Conv2D(width, size, strides=size, name="project")

    def build(self, shape):
        self.project.build(shape)
        count = (shape[1] // self.size) * (shape[2] // self.size) + 1
        self.token = self.add_weight(
            (1, 1, self.width), "random_normal", name="token"
        )
        self.positions = self.add_weight(
            (1, count, self.width), "random_normal", name="positions"
        )

    def call(self, images):
        patches = self.project(images)
        count = patches.shape[1] * patches.shape[2]
        patches = ops.reshape(patches, (-1, count, self.width))
        token = ops.repeat(self.token, ops.shape(patches)[0], axis=0)
        return ops.concatenate([token, patches], axis=1) + self.positions

    def get_config(self):
        return super().get_config() | {"width": self.width, "size": self.size}


@register
class VisionTransformer(keras.Model):
    """Subclassed, with its blocks in a list, and the automatic `get_config`."""

    def __init__(self, width=8, depth=2, classes=3, **options):
        super().__init__(**options)
        self.patches = PatchEncoder(width, 4, name="patches")
        self.blocks = [
            EncoderBlock(2, 2 * width, name=f"block_{i}") for i in range(depth)
        ]
        self.norm = L.LayerNormalization(name="norm")
        self.head = L.Dense(classes, name="head")

    def call(self, images, training=None):
        hidden = self.patches(images)
        for block in self.blocks:
            hidden = block(hidden, training=training)
        return self.head(self.norm(hidden[:, 0]))


@register
class TokenEmbedding(L.Layer):
    def __init__(self, vocabulary, length, width, **options):
        super().__init__(**options)
        self.sizes = (vocabulary, length, width)
        self.parts = {
            "token": L.Embedding(vocabulary, width, mask_zero=True, name="of"),
            "position": L.Embedding(length, width, name="at"),
        }

    def build(self, shape):
        for part in self.parts.values():
            part.build(shape)

    def call(self, tokens):
        positions = ops.arange(tokens.shape[-1])
        return self.parts["token"](tokens) + self.parts["position"](positions)

    def compute_mask(self, tokens, mask=None):
        return self.parts["token"].compute_mask(tokens)

    def get_config(self):
        names = ("vocabulary", "length", "width")
        return super().get_config() | dict(zip(names, self.sizes, strict=True))


def text_transformer(vocabulary=12, length=6, width=8, classes=2):
    """A functional model of custom blocks, with masks."""
    inputs = keras.Input((length,), dtype="int32", name="tokens")
    hidden = TokenEmbedding(vocabulary, length, width, name="embed")(inputs)
    for i in range(2):
        hidden = EncoderBlock(2, 16, name=f"block_{i}")(hidden)
    hidden = L.GlobalAveragePooling1D()(hidden)
    return keras.Model(inputs, L.Dense(classes, name="head")(hidden))


@register
class Backbone(keras.Model):
    """A functional model of a class with its own configuration."""

    def __init__(self, vocabulary, width, depth, dtype=None, **options):
        self.embed = L.Embedding(vocabulary, width, dtype=dtype)
        self.blocks = [
            EncoderBlock(2, 2 * width, dtype=dtype) for _ in range(depth)
        ]
        self.pool = L.Dense(width, "tanh", dtype=dtype)
        tokens = keras.Input((None,), dtype="int32", name="tokens")
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        super().__init__(
            {"tokens": tokens},
            {"sequence": hidden, "pooled": self.pool(hidden[:, 0])},
            dtype=dtype,
            **options,
        )
        self.sizes, self.precision = (vocabulary, width, depth), dtype

    def pooled(self, tokens):
        return self({"tokens": tokens})["pooled"]

    def get_config(self):
        names = ("vocabulary", "width", "depth")
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": self.precision,
        } | dict(zip(names, self.sizes, strict=True))

    @classmethod
    def from_config(cls, config):
        return cls(**config)
