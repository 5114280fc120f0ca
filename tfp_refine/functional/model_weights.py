"""All weights of a model as two vectors, and the model as their function."""

import inspect

import numpy as np
import tensorflow as tf

from tfp_refine.functional import arrays
from tfp_refine.functional import seeds


class ModelWeights:
    """Order and shapes in which a model's weights are flattened.

    Args:
        model: Built `keras.Model`, functional or subclassed. Nothing is
            assigned to it but by `assign`.

    Attributes:
        size: `P`, the number of trainable weights.
        num_others: `V`, the number of others, such as moving averages.
        dtype: Of all of them.

    Raises:
        ValueError: If the model is not built, or has no trainable weights, or
            weights of several dtypes.
    """

    def __init__(self, model):
        arrays.check_built(model)
        self._model = model
        self._trainable = list(model.trainable_weights)
        if not self._trainable:
            raise ValueError(f"The model '{model.name}' has no weights.")
        trainable = set(map(id, self._trainable))
        self._others = [w for w in model.weights if id(w) not in trainable]
        dtypes = {w.dtype for w in (*self._trainable, *self._others)}
        if len(dtypes) != 1:
            raise ValueError(
                "All weights of a model must have one dtype. Received: "
                f"{', '.join(sorted(dtypes))} in '{model.name}'"
            )
        self.dtype = dtypes.pop()
        self.size = _count(self._trainable)
        self.num_others = _count(self._others)
        training = "training" in inspect.signature(model.call).parameters
        self._takes_training = training

    @property
    def shapes(self):
        """Shapes of all weights, trainable ones first, lists of integers."""
        return [list(w.shape) for w in (*self._trainable, *self._others)]

    def values(self, model=None):
        """Returns the current weights.

        Args:
            model: A model of the same architecture; this one if `None`.

        Returns:
            params: Trainable weights, array `[P]`.
            others: Others, array `[V]`.
        """
        like = self if model is None else ModelWeights(model)
        return tuple(
            np.concatenate(
                [np.zeros(0, self.dtype), *(np.ravel(w) for w in weights)]
            )
            for weights in (like._trainable, like._others)
        )

    def assign(self, params, others):
        """Sets the weights of the model.

        Args:
            params: Trainable weights, `[P]`.
            others: Others, `[V]`.
        """
        for weights, values in (
            (self._trainable, params),
            (self._others, others),
        ):
            for weight, value in zip(
                weights, _split(weights, values), strict=True
            ):
                weight.assign(value)

    def outputs(self, x, params, others, key, index, training=False):
        """Calls the model with weights and randomness that are arguments.

        Args:
            x: Inputs, `[B, ...]` (or nested).
            params: Trainable weights, `[P]`.
            others: Others, `[V]`.
            key: Integer scalar, of the random stream.
            index: Integer scalar: calls with different ones draw independently.
            training: Whether in training mode.

        Returns:
            outputs: Outputs of the model, `[B, ...]` (or nested).
            others: Others after the call, `[V]`.
            penalty: Sum of the model's regularization losses, scalar.
        """
        model = self._model
        values = {
            id(weight): value
            for weights, vector in (
                (self._trainable, params),
                (self._others, others),
            )
            for weight, value in zip(
                weights, _split(weights, vector), strict=True
            )
        }
        states = [v for v in model.variables if seeds.is_generator_state(v)]
        values.update(seeds.generator_states(states, key, index))

        def current(variable):
            # Metrics have no part in the outputs.
            value = values.get(id(variable))
            return variable.value if value is None else value

        outputs, updated, losses = model.stateless_call(
            [current(v) for v in model.trainable_variables],
            [current(v) for v in model.non_trainable_variables],
            x,
            return_losses=True,
            **({"training": training} if self._takes_training else {}),
        )
        after = dict(
            zip(map(id, model.non_trainable_variables), updated, strict=True)
        )
        others = tf.concat(
            [
                tf.zeros([0], self.dtype),
                *(tf.reshape(after[id(w)], [-1]) for w in self._others),
            ],
            axis=0,
        )
        return outputs, others, tf.add_n([tf.zeros([], self.dtype), *losses])


def _count(weights):
    return sum(int(np.prod(weight.shape)) for weight in weights)


def _split(weights, vector):
    """Splits a vector into tensors of the shapes of weights."""
    if not weights:  # `tf.split` needs one
        return []
    parts = tf.split(vector, [int(np.prod(w.shape)) for w in weights])
    return [
        tf.reshape(part, weight.shape)
        for part, weight in zip(parts, weights, strict=True)
    ]
