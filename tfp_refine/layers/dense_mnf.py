"""Dense layer with a multiplicative normalizing flow."""

import keras

from tfp_refine.layers import docstrings
from tfp_refine.layers import multiplicative_layer
from tfp_refine.layers import variational_dense


@keras.saving.register_keras_serializable(package="tfp_refine")
@docstrings.expand
class DenseMNF(
    multiplicative_layer.MultiplicativeLayer, variational_dense.VariationalDense
):
    """Dense layer whose posterior is a multiplicative normalizing flow.

    `W[i, j] ~ N(z[i] * loc[i, j], scale[i, j]**2)`: the weights of an input
    share a random multiplier, and a normalizing flow couples the multipliers.
    So weights are correlated, and not Gaussian, at the price of a few small
    products. Each example has multipliers of its own, and given these its
    pre-activations are drawn as in `DenseLocalReparameterization`, or in
    inference from one draw of the weights for the batch.

    {mnf_dense}

    Example:

    ```python
    layer = tfp_refine.layers.DenseMNF(10, num_train_examples=60000)
    ```

    Reference:
        - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961)
    """

    z_axis = 0

    def multiplied_means(self, inputs, loc, z):
        ones = (1,) * (len(inputs.shape) - 2)
        z = keras.ops.reshape(z, (-1, *ones, z.shape[-1]))
        return self.apply_kernel(inputs * z, loc)
