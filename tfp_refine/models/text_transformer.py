"""Transformers of tokens with variational layers."""

import keras

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.layers import argument_types
from tfp_refine.models import encoder
from tfp_refine.models import layer_maker
from tfp_refine.models import variants


def TextTransformer(  # Named as a class, as models are in keras.applications.
    vocabulary_size: int,
    length: int,
    num_classes: int = 2,
    *,
    width: int = 128,
    depth: int = 2,
    num_heads: int = 2,
    hidden_units: int = 512,
    variational: str = "hybrid",
    activation: argument_types.Activation = "gelu",
    attention_layer: layer_maker.Kind = layers.MultiHeadAttentionFlipout,
    dense_layer: layer_maker.Kind = layers.DenseFlipout,
    kernel_initializer: argument_types.Initializer = "glorot_uniform",
    kernel_posterior: argument_types.Posterior = "mean_field",
    bias_posterior: argument_types.Posterior = "mean_field",
    kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
    bias_regularizer: argument_types.Regularizer = "gaussian_kl",
    num_train_examples: int | None = None,
    kl_scale: float = 1.0,
    seed: int | None = None,
    name: str | None = "text_transformer",
) -> keras.Model:
    """Builds a Transformer that classifies texts, given as token numbers.

    Embeddings, a class token before the text, learned positions, pre-norm
    blocks of attention and two dense layers, and a dense layer of the class
    token. Token 0 is padding, which no other token attends to. The encoder is
    that of `VisionTransformer`; with the defaults it has the size of BERT-Tiny
    (Turc et al., 2019).

    Which weights have posteriors:

    - `"none"`: none, an ordinary network;
    - `"hybrid"`: the second dense layer of each block, and the last layer;
    - `"full"`: all layers of the blocks, and the last layer.

    Embeddings, the class token and the positions are deterministic.

    Args:
        vocabulary_size: Number of tokens, with 0 for padding.
        length: Tokens of a text, with padding.
        num_classes: Number of outputs, logits. Defaults to `2`.
        width: Features of a token, a multiple of `num_heads`. Defaults to
            `128`.
        depth: Number of blocks. Defaults to `2`.
        num_heads: Heads of the attention. Defaults to `2`.
        hidden_units: Units of the first dense layer of a block. Defaults to
            `512`.
        variational: One of the above. Defaults to `"hybrid"`.
        activation: As for `VisionTransformer`.
        attention_layer: As for `VisionTransformer`.
        dense_layer: As for `VisionTransformer`.
        kernel_initializer: As for `AlexNet`. Defaults to `"glorot_uniform"`.
        kernel_posterior: As for `AlexNet`.
        bias_posterior: As for `AlexNet`.
        kernel_regularizer: As for `AlexNet`.
        bias_regularizer: As for `AlexNet`.
        num_train_examples: As for `AlexNet`.
        kl_scale: As for `AlexNet`.
        seed: As for `AlexNet`.
        name: Name of the model.

    Returns:
        model: Functional `keras.Model`, not compiled, integers `[B, length]` to
            logits `[B, num_classes]`.

    Raises:
        ValueError: If an argument is invalid, or a class of layers does not
            have an argument that is not at its default.

    Example:

    ```python
    model = tfp_refine.models.TextTransformer(
        20000, length=256, num_train_examples=25000
    )
    ```

    Reference:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)
        - [Turc et al., 2019](https://arxiv.org/abs/1908.08962)
    """
    _validation.all_positive_integers(
        vocabulary_size=vocabulary_size, length=length, num_classes=num_classes
    )
    encoder.check(width, depth, num_heads, hidden_units)
    make = variants.Variant(locals())
    inputs = keras.Input((length,), dtype="int32", name="inputs")
    x = make.make(
        keras.layers.Embedding,
        vocabulary_size,
        width,
        embeddings_initializer=keras.initializers.TruncatedNormal(stddev=0.02),
        mask_zero=True,
        name="embeddings",
    )(inputs)
    x = encoder.encode(make, x, depth, num_heads, hidden_units, activation)
    outputs = make.dense(num_classes, since="hybrid", name="outputs")(x)
    return keras.Model(inputs, outputs, name=name)
