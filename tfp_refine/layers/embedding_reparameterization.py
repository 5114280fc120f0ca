"""Embedding whose rows have a posterior."""

import keras

from tfp_refine.layers import docstrings
from tfp_refine.layers import sampled_layer


@keras.saving.register_keras_serializable(package="tfp_refine")
@docstrings.expand
class EmbeddingReparameterization(sampled_layer.SampledLayer):
    """Embedding that draws all of its rows once for each call.

    All positions of all examples of a call share the draw, so that a number has
    one embedding in it.

    Args:
        *args: Arguments of `keras.layers.Embedding`: `input_dim`, the number of
            rows, and `output_dim`.
        {sampled}
        **kwargs: Other arguments of `keras.layers.Embedding`; and
            `embeddings_regularizer`, a KL regularizer (defaults to
            `"gaussian_kl"`; a row counts as one with a fan-in of 1), and
            `embeddings_posterior` (defaults to `"mean_field"`).

    Call arguments:
        inputs: Integer tensor.
        sample: Overrides the layer's own `sample` if not `None`.

    Input shape:
        `[batch_size, ...]`.

    Output shape:
        `[batch_size, ..., output_dim]`.

    {errors}

    Example:

    ```python
    layer = tfp_refine.layers.EmbeddingReparameterization(
        1000, 64, num_train_examples=20000
    )
    ```
    """

    keras_layer = keras.layers.Embedding
    parts = (("embeddings", "_embeddings"),)
    sizes = ("input_dim", "output_dim")

    def fan_in(self, part):
        del part
        return 1
