"""A whole network as a function of its weights."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.posteriors import network


class AllLayers(network.Network):
    """A network as a function of all its trainable weights.

    These are in the order of `model.trainable_variables`, each flattened.

    Args:
        model: As for `Network`.
        layer: As for `Network`.

    Raises:
        ValueError: As for `Network`.
    """

    def __init__(self, model, layer=None):
        super().__init__(model, layer)
        # For good: layers may be frozen later.
        self._variables = list(model.trainable_variables)
        if not self._variables:
            raise ValueError(
                f"The model '{model.name}' has no trainable weights."
            )

    @property
    def size(self):
        """`D`, the number of weights."""
        return sum(self._sizes())

    @property
    def loc(self):
        """The trained weights, float64 array, `[D]`."""
        return np.concatenate(
            [
                np.ravel(keras.ops.convert_to_numpy(v)).astype(np.float64)
                for v in self._variables
            ]
        )

    def inputs(self, x, batch_size, on_batch=None):
        """Returns the inputs as they are: nothing is computed once for all."""
        del batch_size, on_batch
        return x

    def outputs(self, theta, x):
        """Computes the outputs.

        Args:
            theta: Weights, `[D]` or `[S, D]`.
            x: Inputs, `[B, ...]` (or nested).

        Returns:
            outputs: `[B, C]` or `[S, B, C]`.
        """
        if len(theta.shape) == 1:
            return self._outputs(theta, x)
        return tf.map_fn(
            lambda one: self._outputs(one, x),
            theta,
            fn_output_signature=tf.TensorSpec(
                [None, self.num_outputs], theta.dtype
            ),
        )

    def _outputs(self, theta, x):
        variables = self._variables
        given = {
            id(variable): tf.reshape(part, variable.shape)
            for variable, part in zip(
                variables, tf.split(theta, self._sizes()), strict=True
            )
        }
        weights = [
            tf.cast(given[id(v)], v.dtype) if id(v) in given else v.value
            for v in self._forward.other_variables
        ]
        return tf.cast(self._call(x, weights)[1], theta.dtype)

    def _sizes(self):
        return [int(np.prod(v.shape)) for v in self._variables]
