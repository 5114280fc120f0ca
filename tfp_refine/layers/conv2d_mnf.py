"""2D convolution with a multiplicative normalizing flow."""

import keras

from tfp_refine.layers import docstrings
from tfp_refine.layers import multiplicative_layer
from tfp_refine.layers import variational_conv


@keras.saving.register_keras_serializable(package="tfp_refine")
@docstrings.expand
class Conv2DMNF(
    multiplicative_layer.MultiplicativeLayer, variational_conv.VariationalConv
):
    """2D convolution whose posterior is a multiplicative normalizing flow.

    `W[..., k] ~ N(z[k] * loc[..., k], scale[..., k]**2)`: the weights of a
    filter share a random multiplier, and a normalizing flow couples the
    multipliers of the filters. The bias is not multiplied. Each example has
    multipliers of its own, and given these its pre-activations are drawn as in
    `Conv2DLocalReparameterization`, or in inference from one draw of the
    weights for the batch.

    {mnf_conv}

    Example:

    ```python
    layer = tfp_refine.layers.Conv2DMNF(20, 5, num_train_examples=60000)
    ```

    Reference:
        - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961)
    """

    keras_layer = keras.layers.Conv2D
    z_axis = -1

    def multiplied_means(self, inputs, loc, z):
        shape = [1] * (self.rank + 2)
        shape[0], shape[self.channel_axis] = -1, z.shape[-1]
        outputs = self.apply_kernel(inputs, loc)
        return outputs * keras.ops.reshape(z, shape)
