"""Dense layer with a sign-flipped draw of the weights for each example."""

import keras

from tfp_refine.layers import docstrings
from tfp_refine.layers import estimators
from tfp_refine.layers import variational_dense


@keras.saving.register_keras_serializable(package="tfp_refine")
@docstrings.expand
class DenseFlipout(estimators.Flipout, variational_dense.VariationalDense):
    """Dense layer that decorrelates one draw of the weights by random signs.

    Each example sees the weights' one deviation from the means with signs of
    its own: exact for any posterior symmetric about its mean, two products, a
    gradient with far less variance than with one draw for the whole batch.

    {dense}

    {errors}

    Example:

    ```python
    layer = tfp_refine.layers.DenseFlipout(10, num_train_examples=60000)
    ```

    Reference:
        - [Wen et al., 2018](https://arxiv.org/abs/1803.04386)
    """
