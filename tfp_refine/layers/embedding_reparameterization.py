"""Embedding whose rows have a posterior."""

from typing import Any

import keras

from tfp_refine import _validation
from tfp_refine.layers import argument_types
from tfp_refine.layers import docstrings
from tfp_refine.layers import sampled_layer


@docstrings.public_layer
class EmbeddingReparameterization(sampled_layer.SampledLayer):
    """Embedding that draws all of its rows once for each call.

    All positions of all examples of a call share the draw, so that an index has
    one embedding in it. For the scale of priors, a row has a fan-in of 1.

    {args}

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

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: argument_types.Initializer = "uniform",
        embeddings_regularizer: argument_types.Regularizer = "gaussian_kl",
        embeddings_constraint: argument_types.Constraint = None,
        mask_zero: bool = False,
        *,
        activity_regularizer: argument_types.Regularizer = None,
        embeddings_posterior: argument_types.Posterior = "mean_field",
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        sample: bool = True,
        seed: int | None = None,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        input_dim = _validation.positive_integer("input_dim", input_dim)
        output_dim = _validation.positive_integer("output_dim", output_dim)
        super().__init__(**self.grouped(locals()))

    def fan_in(self, part: str) -> int:
        return 1

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("quantization_config", None)
        return config
