"""LSTM layer whose weights have posteriors."""

import keras

from tfp_refine.layers import recurrent_layer


@keras.saving.register_keras_serializable(package="tfp_refine")
class LSTMReparameterization(recurrent_layer.RecurrentLayer):
    """LSTM layer that draws all of its weights once for each call.

    All steps of all examples of a call share the draw: the weights are those of
    one network, which is unrolled over time.

    Args:
        *args: Arguments of `keras.layers.LSTM`: `units`.
        num_train_examples: Size of the training set. The KL divergence (nats)
            enters `losses` divided by it, once for each step. May be given
            later, through `set_num_train_examples`.
        kl_scale: Factor on the KL divergence. Defaults to `1.0`.
        sample: Whether calls draw the weights, in training and in inference
            alike; if `False` they use the posterior means. Defaults to `True`.
        seed: Integer seed of the layer's random draws.
        name: Name of the layer.
        dtype: As for `keras.layers.Layer`.
        trainable: As for `keras.layers.Layer`.
        **kwargs: Other arguments of `keras.layers.LSTM`; for each of
            `kernel`, `recurrent` and `bias` a `..._regularizer` is a KL
            regularizer (defaults to `"gaussian_kl"`), and there is a
            `..._posterior` (defaults to `"mean_field"`; `None` for a point
            estimate).

    Call arguments:
        inputs: Tensor, as below.
        sample: Overrides the layer's own `sample` if not `None`.
        mask: As for `keras.layers.LSTM`.
        training: As for `keras.layers.LSTM`.
        initial_state: As for `keras.layers.LSTM`.

    Input shape:
        `[batch_size, steps, features]`.

    Output shape:
        As `keras.layers.LSTM`.

    Raises:
        ValueError: If an argument is invalid; and at the first use of `losses`
            if `num_train_examples` was never given.

    Example:

    ```python
    layer = tfp_refine.layers.LSTMReparameterization(
        32, num_train_examples=20000
    )
    ```

    Reference:
        - [Fortunato et al., 2017](https://arxiv.org/abs/1704.02798)
    """

    keras_layer = keras.layers.LSTM
