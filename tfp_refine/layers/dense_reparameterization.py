"""Dense layer with one draw of the weights for each call."""

import keras

from tfp_refine.layers import docstrings
from tfp_refine.layers import estimators
from tfp_refine.layers import variational_dense


@keras.saving.register_keras_serializable(package="tfp_refine")
@docstrings.expand
class DenseReparameterization(
    estimators.Reparameterization, variational_dense.VariationalDense
):
    """Dense layer whose weights are drawn once for each call.

    The whole batch sees the same draw: the cheapest forward pass, the noisiest
    gradient, and coherent functions (one call is one function).

    {dense}

    {errors}

    Example:

    ```python
    layer = tfp_refine.layers.DenseReparameterization(
        10, num_train_examples=60000
    )
    ```

    Reference:
        - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    """
