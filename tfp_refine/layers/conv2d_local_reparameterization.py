"""2D convolution that draws pre-activations in place of weights."""

import keras

from tfp_refine.layers import docstrings
from tfp_refine.layers import estimators
from tfp_refine.layers import variational_conv


@keras.saving.register_keras_serializable(package="tfp_refine")
@docstrings.expand
class Conv2DLocalReparameterization(
    estimators.LocalReparameterization, variational_conv.VariationalConv
):
    """2D convolution that draws each pre-activation from its Gaussian marginal.

    Mean and variance of each output are exact, and the gradient has little
    variance. But positions of one example are drawn independently, where one
    draw of the weights would couple them: sums and pools over space vary less
    or more than under the posterior, and the bound is that of weights of their
    own at each position. Compute bounds and predictions to be compared with
    other layers' with those, or with `Conv2DFlipout`.

    {conv}

    {errors}

    Example:

    ```python
    layer = tfp_refine.layers.Conv2DLocalReparameterization(
        16, 3, num_train_examples=60000
    )
    ```

    Reference:
        - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557)
    """

    keras_layer = keras.layers.Conv2D
