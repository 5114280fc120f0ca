"""LSTM layer whose weights have posteriors."""

import keras

from tfp_refine.layers import docstrings
from tfp_refine.layers import recurrent_layer


@keras.saving.register_keras_serializable(package="tfp_refine")
@docstrings.expand
class LSTMReparameterization(recurrent_layer.RecurrentLayer):
    """LSTM layer that draws all of its weights once for each call.

    {recurrent}

    {errors}

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
