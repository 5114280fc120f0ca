"""Independent Gaussians of a model's weights as one vector."""

import tensorflow as tf

from tfp_refine.functional import weight_view
from tfp_refine.math import philox
from tfp_refine.math import softplus

# Added to the number of a call, whose own draws use it as it is.
_STREAM = 2**41


class GaussianView(weight_view.WeightView):
    """Independent Gaussians of all trainable weights as `params [2, P]`.

    The rows are their means and untransformed scales. The model, of any layers,
    is called with one draw of its weights for all examples.
    """

    is_random = True
    deterministic_weights = ()

    def __init__(self, model):
        super().__init__(model)
        self.select = "gaussian"

    @property
    def num_weights(self):
        """`P`, the number of weights, all of which have a posterior."""
        return self.size

    def params(self, model=None):
        """Returns a point at a model's weights, `[2, P]`."""
        loc = weight_view.WeightView(model or self.model).params()
        return tf.stack([loc, softplus.inverse(tf.zeros_like(loc))])

    def split(self, params):
        """Cuts the means into tensors of the shapes of `variables`."""
        return super().split(params[0])

    def call(self, x, params, fixed, key, index=0):
        """Computes outputs for one draw of the weights, in inference mode."""
        loc, untransformed = tf.unstack(params)
        number = tf.cast(index, tf.int64) + _STREAM
        seed = tf.stack([tf.cast(key, tf.int64), number])
        noise = philox.normal([self.size], seed, params.dtype)
        drawn = loc + tf.nn.softplus(untransformed) * noise
        return super().call(x, drawn[tf.newaxis], fixed, key, index)
