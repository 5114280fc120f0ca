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

    Args:
        model: Built `keras.Model`.
        params: Its posterior, `[2, P]`; a point at its weights if `None`.
        fixed: Values of its other weights; those that it has if `None`.
    """

    is_random = True
    deterministic_weights = ()

    def __init__(self, model, params=None, fixed=None):
        super().__init__(model)
        self.select = "gaussian"
        self._params, self._fixed = params, fixed

    @property
    def num_weights(self):
        """`P`, the number of weights, all of which have a posterior."""
        return self.size

    def params(self, model=None):
        """Returns the posterior, `[2, P]`, or a point at a model's weights."""
        if model is None and self._params is not None:
            return tf.constant(self._params, self.dtype)
        loc = weight_view.WeightView(model or self.model).params()
        return tf.stack([loc, softplus.inverse(tf.zeros_like(loc))])

    def fixed(self):
        """Returns the values of the other weights, a list of tensors."""
        if self._fixed is None:
            return super().fixed()
        return [tf.convert_to_tensor(value) for value in self._fixed]

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
