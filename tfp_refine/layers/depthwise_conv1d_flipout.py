"""Depthwise 1D convolution with a sign-flipped draw for each example."""

import keras

from tfp_refine.layers import docstrings
from tfp_refine.layers import estimators
from tfp_refine.layers import variational_conv


@keras.saving.register_keras_serializable(package="tfp_refine")
@docstrings.expand
class DepthwiseConv1DFlipout(
    estimators.Flipout, variational_conv.VariationalDepthwiseConv
):
    """Depthwise 1D convolution that decorrelates one draw by random signs.

    Each example sees the weights' one deviation from the means with signs of
    its own, which are the same at all positions: exact for any posterior
    symmetric about its mean, for each example. Two convolutions, a gradient
    with far less variance than with one draw for the whole batch.

    Keras names the kernel's arguments `depthwise_*` in this layer; its
    posterior is `kernel_posterior`, as in all others.

    {conv}

    {errors}

    Example:

    ```python
    layer = tfp_refine.layers.DepthwiseConv1DFlipout(
        3, num_train_examples=60000
    )
    ```

    Reference:
        - [Wen et al., 2018](https://arxiv.org/abs/1803.04386)
    """

    keras_layer = keras.layers.DepthwiseConv1D
