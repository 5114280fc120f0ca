"""Dense layer that draws pre-activations in place of weights."""

import keras

from tfp_refine.layers import docstrings
from tfp_refine.layers import estimators
from tfp_refine.layers import variational_dense


@keras.saving.register_keras_serializable(package="tfp_refine")
@docstrings.expand
class DenseLocalReparameterization(
    estimators.LocalReparameterization, variational_dense.VariationalDense
):
    """Dense layer that draws each pre-activation from its Gaussian marginal.

    With `x` the inputs, an output is `N(x @ loc, x**2 @ scale**2)`, independent
    for each example: two products, little random noise, and the gradient with
    the least variance of the three dense layers. With inputs of more than two
    axes, positions of one example are independent too.

    {dense}

    {errors}

    Example:

    ```python
    layer = tfp_refine.layers.DenseLocalReparameterization(
        10, num_train_examples=60000
    )
    ```

    Reference:
        - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557)
    """
