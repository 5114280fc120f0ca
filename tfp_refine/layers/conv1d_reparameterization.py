"""1D convolution with one draw of the weights for each call."""

import keras

from tfp_refine.layers import docstrings
from tfp_refine.layers import estimators
from tfp_refine.layers import variational_conv


@keras.saving.register_keras_serializable(package="tfp_refine")
@docstrings.expand
class Conv1DReparameterization(
    estimators.Reparameterization, variational_conv.VariationalConv
):
    """1D convolution whose weights are drawn once for each call.

    The whole batch sees the same draw: the cheapest forward pass, the noisiest
    gradient, and coherent functions (one call is one function).

    {conv}

    {errors}

    Example:

    ```python
    layer = tfp_refine.layers.Conv1DReparameterization(
        16, 3, num_train_examples=60000
    )
    ```

    Reference:
        - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    """

    keras_layer = keras.layers.Conv1D
