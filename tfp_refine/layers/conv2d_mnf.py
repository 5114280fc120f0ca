"""2D convolution with a multiplicative normalizing flow."""

import keras

from tfp_refine import arguments
from tfp_refine.layers import docstrings
from tfp_refine.layers import multiplicative_layer
from tfp_refine.layers import variational_conv

_ESTIMATORS = ("local_reparameterization", "reparameterization")


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

    def __init__(
        self, *args, inference_estimator="local_reparameterization", **kwargs
    ):
        super().__init__(*args, **kwargs)
        self.inference_estimator = arguments.one_of(
            "inference_estimator", inference_estimator, _ESTIMATORS
        )

    def call(self, inputs, sample=None, training=None):
        sample_outputs = self.sample_outputs
        if not training and self.inference_estimator == "reparameterization":
            sample_outputs = self._sample_with_one_kernel
        return self._call(inputs, sample, sample_outputs)

    def _sample_with_one_kernel(self, inputs):
        """Computes pre-activations with one draw of the weights."""
        dtype = self.compute_dtype
        outputs = self.apply_kernel(inputs, self.draw_kernel(dtype))
        if self.use_bias:
            bias = self._weight_tensors["bias"].sample(
                self.seed_generator, dtype
            )
            outputs = outputs + self.broadcast_bias(bias)
        return outputs

    def multiplied_means(self, inputs, loc, z):
        shape = [1] * (self.rank + 2)
        shape[0], shape[self.channel_axis] = -1, z.shape[-1]
        outputs = self.apply_kernel(inputs, loc)
        return outputs * keras.ops.reshape(z, shape)

    def get_config(self):
        return {
            **super().get_config(),
            "inference_estimator": self.inference_estimator,
        }
