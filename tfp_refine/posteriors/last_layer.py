"""The last layer of a network as a function of its weights."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.posteriors import network


class LastLayer(network.Network):
    """A network as a function of the weights of its last layer alone.

    These are `Theta [C, P]` row by row, with the bias at the end of each row if
    there is one: the outputs are `Theta phi` for features `phi`, the inputs of
    the layer with a 1 at the end.

    Args:
        model: As for `Network`.
        layer: As for `Network`.

    Raises:
        ValueError: As for `Network`.
    """

    @property
    def num_features(self):
        """`P`, the inputs of the layer, and 1 for its bias."""
        return self.layer.kernel.shape[0] + int(self.layer.use_bias)

    @property
    def size(self):
        """`D`, the number of weights."""
        return self.num_outputs * self.num_features

    @property
    def loc(self):
        """The trained weights, float64 array, `[D]`."""
        theta = keras.ops.convert_to_numpy(self.layer.kernel).T
        if self.layer.use_bias:
            bias = keras.ops.convert_to_numpy(self.layer.bias)
            theta = np.concatenate([theta, bias[:, np.newaxis]], axis=1)
        return theta.astype(np.float64).reshape(-1)

    def inputs(self, x, batch_size, on_batch=None):
        """Computes features, once for all that is done with them.

        Args:
            x: Inputs of the model, tensors `[N, ...]` (or nested).
            batch_size: Examples computed at a time.
            on_batch: Function called with the examples done, or `None`.

        Returns:
            features: float32 (or float64) array, `[N, P]`.

        Raises:
            ValueError: If they are not finite.
        """
        num_examples = keras.tree.flatten(x)[0].shape[0]
        program = self._program(x, self._features)
        blocks = []
        for begin in range(0, num_examples, batch_size):
            rows = slice(begin, begin + batch_size)
            blocks.append(
                program(
                    keras.tree.map_structure(lambda v, r=rows: v[r], x)
                ).numpy()
            )
            if on_batch is not None:
                on_batch(min(begin + batch_size, num_examples))
        features = np.concatenate(blocks)
        bad = np.count_nonzero(~np.isfinite(features).all(axis=1))
        if bad:
            raise ValueError(
                f"The features before the layer '{self.layer.name}' must be "
                f"finite. Received: {bad} of {num_examples} examples with NaN "
                "or infinite features; has the training diverged?"
            )
        return features

    def outputs(self, theta, features):
        """Computes the outputs.

        Args:
            theta: Weights, `[..., D]`.
            features: `[B, P]`.

        Returns:
            outputs: `[..., B, C]`.
        """
        shape = tf.concat(
            [tf.shape(theta)[:-1], [self.num_outputs, self.num_features]], 0
        )
        return tf.matmul(
            tf.cast(features, theta.dtype),
            tf.reshape(theta, shape),
            transpose_b=True,
        )

    def _features(self, x, weights):
        features, _, _ = self._call(x, weights)
        if self.layer.use_bias:
            features = tf.pad(features, [[0, 0], [0, 1]], constant_values=1.0)
        return features
