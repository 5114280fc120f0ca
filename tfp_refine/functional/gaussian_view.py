"""Independent Gaussians in a basis of a model's weights."""

import tensorflow as tf

from tfp_refine.functional import weight_view
from tfp_refine.math import kronecker
from tfp_refine.math import philox

# Added to the number of a call, whose own draws use it as it is.
_STREAM = 2**41


class GaussianView(weight_view.WeightView):
    """Independent Gaussians as `params [2, P]`, of coordinates of weights.

    The rows are their means and untransformed scales. Weights are the product
    of a matrix and the coordinates, which are the weights themselves if there
    is none. The model, of any layers, is called with one draw of its weights
    for all examples.

    Args:
        weights: View of the weights: `WeightView` or `LastLayerView`.
        num_factors: Number of arrays of which the matrix is the Kronecker
            product: 0, 1 (`[P, P]`) or 2 (`[C, C]` and `[F, F]`). They come
            first in `fixed`.
    """

    is_random = True
    deterministic_weights = ()

    def __init__(self, weights, num_factors=0):
        self._set_up(weights.model, "gaussian", weights.variables)
        self.weights, self.num_factors = weights, num_factors

    @property
    def has_shared(self):
        """True if draws share more than the inputs."""
        return self.weights.has_shared

    @property
    def size(self):
        """`P`, the number of weights."""
        return self.weights.size

    @property
    def num_weights(self):
        """`P`: all weights have a posterior."""
        return self.size

    @property
    def dtype(self):
        """Dtype of the weights."""
        return self.weights.dtype

    def located(self, coordinates, fixed):
        """Returns the weights `[..., P]` at some coordinates `[..., P]`."""
        return kronecker.multiply(fixed[: self.num_factors], coordinates)

    def variances(self, variances, fixed):
        """Returns the weights' variances `[..., P]`, of coordinates' ones."""
        squares = [tf.square(factor) for factor in fixed[: self.num_factors]]
        return kronecker.multiply(squares, variances)

    def assign(self, params, fixed):
        """Sets the weights of the model to the means."""
        self.weights.assign(
            self.located(tf.convert_to_tensor(params)[0], fixed),
            fixed[self.num_factors :],
        )

    def call(self, x, params, fixed, key, index=0):
        """Computes outputs for one draw of the weights, in inference mode."""
        drawn, fixed = self._drawn(params, fixed, key, index)
        return self.weights.call(x, drawn, fixed, key, index)

    def shared(self, x, fixed):
        """Computes, in a trace, the values that all draws share."""
        return self.weights.shared(x, fixed[self.num_factors :])

    def check_features(self, features):
        """Raises a `ValueError` unless the shared features are finite."""
        self.weights.check_features(features)

    def draws(self, shared, params, fixed, key, index):
        """Computes outputs under one draw of the weights, given `shared`."""
        drawn, fixed = self._drawn(params, fixed, key, index)
        return self.weights.draws(shared, drawn, fixed, key, index)

    def digest(self):
        """Returns a short text for the architecture and all its shapes."""
        return self.weights.digest()

    def _drawn(self, params, fixed, key, index):
        """Draws the weights `[P]`; also returns the model's `fixed`."""
        loc, untransformed = tf.unstack(params)
        number = tf.cast(index, tf.int64) + _STREAM
        seed = tf.stack([tf.cast(key, tf.int64), number])
        noise = philox.normal([self.size], seed, params.dtype)
        drawn = loc + tf.nn.softplus(untransformed) * noise
        return self.located(drawn, fixed), fixed[self.num_factors :]
