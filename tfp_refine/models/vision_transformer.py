"""Vision Transformers with variational layers."""

from collections.abc import Sequence

import keras

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.layers import argument_types
from tfp_refine.models import encoder
from tfp_refine.models import layer_maker
from tfp_refine.models import variants


def VisionTransformer(  # Named as a class, as models are in keras.applications.
    input_shape: Sequence[int],
    num_classes: int = 10,
    *,
    patch_size: int = 4,
    width: int = 192,
    depth: int = 12,
    num_heads: int = 3,
    hidden_units: int = 768,
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
    name: str | None = "vision_transformer",
) -> keras.Model:
    """Builds a Vision Transformer (Dosovitskiy et al., 2021).

    Linear maps of patches, a class token, learned positions, pre-norm blocks of
    attention and two dense layers, and a dense layer of the class token. With
    the defaults it has the size of ViT-Tiny (Touvron et al., 2021), for images
    of 32x32, in 64 patches.

    Which weights have posteriors:

    - `"none"`: none, an ordinary network;
    - `"hybrid"`: the second dense layer of each block, and the last layer;
    - `"full"`: all layers of the blocks, and the last layer.

    The map of patches, the class token and the positions are deterministic.

    Args:
        input_shape: Height, width and channels of an image.
        num_classes: Number of outputs, logits. Defaults to `10`.
        patch_size: Height and width of a patch; divides those of the image.
            Defaults to `4`.
        width: Features of a token, a multiple of `num_heads`. Defaults to
            `192`.
        depth: Number of blocks. Defaults to `12`.
        num_heads: Heads of the attention. Defaults to `3`.
        hidden_units: Units of the first dense layer of a block. Defaults to
            `768`.
        variational: One of the above. Defaults to `"hybrid"`.
        activation: Activation of the first dense layer of a block. Defaults to
            `"gelu"`.
        attention_layer: Class of the Bayesian attention, called as
            `keras.layers.MultiHeadAttention`, or a `functools.partial` of one
            with more of its arguments.
        dense_layer: The same of the dense layers, as `keras.layers.Dense`.
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
        model: Functional `keras.Model`, not compiled, `[B, H, W, C]` to logits
            `[B, num_classes]`.

    Raises:
        ValueError: If an argument is invalid, or a class of layers does not
            have an argument that is not at its default.

    Example:

    ```python
    model = tfp_refine.models.VisionTransformer(
        (32, 32, 3), depth=6, num_train_examples=50000
    )
    ```

    Reference:
        - [Dosovitskiy et al., 2021](https://arxiv.org/abs/2010.11929)
        - [Touvron et al., 2021](https://arxiv.org/abs/2012.12877)
    """
    input_shape = _validation.image_shape("input_shape", input_shape)
    num_classes = _validation.positive_integer("num_classes", num_classes)
    patch_size = _validation.positive_integer("patch_size", patch_size)
    if any(size % patch_size for size in input_shape[:2]):
        raise ValueError(
            "`patch_size` must divide the height and width of an image. "
            f"Received: patch_size={patch_size}, input_shape={input_shape}"
        )
    encoder.check(width, depth, num_heads, hidden_units)
    make = variants.Variant(locals())
    inputs = keras.Input(input_shape, name="inputs")
    x = make.conv(
        width, patch_size, since=None, strides=patch_size, name="patches"
    )(inputs)
    x = keras.layers.Reshape((-1, width), name="sequence")(x)
    x = encoder.encode(make, x, depth, num_heads, hidden_units, activation)
    outputs = make.dense(num_classes, since="hybrid", name="outputs")(x)
    return keras.Model(inputs, outputs, name=name)
