"""A Keras model as a pure function of its weights and of a key."""

import contextlib
import inspect

import tensorflow as tf

from tfp_refine.functional import seeds


class Forward:
    """Calls a model with weights and randomness that come as arguments.

    Nothing is assigned to the model, and the same arguments give the same
    outputs. The model runs in inference mode.

    Args:
        model: Built `keras.Model`, functional or subclassed.
        layout: `WeightLayout` of the weights that come as `params`, or `None`
            if the model is called with the weights it has.
        scope: Function that returns a context in which the model is called.
    """

    def __init__(self, model, layout=None, scope=contextlib.nullcontext):
        self._model = model
        self._layout = layout
        self._scope = scope
        self._places = {}
        if layout is not None:
            for index, weight in enumerate(layout.weights):
                self._places[id(weight.loc)] = (0, index)
                self._places[id(weight.untransformed_scale)] = (1, index)
            for index, variable in enumerate(layout.points):
                self._places[id(variable)] = (2, index)
        arguments = inspect.signature(model.call).parameters
        self._arguments = {"training": False} if "training" in arguments else {}

    @property
    def preprocessing(self):
        """Layers of the model that may have tables, which are no variables."""
        return [
            layer
            for layer in self._model._flatten_layers()
            if hasattr(layer, "adapt")
        ]

    @property
    def other_variables(self):
        """Weights of the model that are not `params`: deterministic ones."""
        return [
            weight
            for weight in self._model.weights
            if id(weight) not in self._places
        ]

    def other_values(self):
        """Returns the current values of `other_variables`."""
        return [tf.convert_to_tensor(v) for v in self.other_variables]

    def __call__(self, x, params, others, key, call_index):
        """Computes the outputs of the model.

        Args:
            x: Inputs, `[B, ...]` (or nested).
            params: As the layout's `params()`; `None` if there is no layout.
            others: Values of `other_variables`, in their order.
            key: Integer scalar, of the random stream.
            call_index: Integer scalar: calls with different ones draw
                independently.

        Returns:
            outputs: Outputs of the model, `[B, ...]` (or nested).
        """
        model = self._model
        values = dict(zip(map(id, self.other_variables), others, strict=True))
        if params is not None:
            split = (
                *self._layout.split(params),
                self._layout.split_points(params),
            )
            for variable, (row, index) in self._places.items():
                values[variable] = split[row][index]
        states = [v for v in model.variables if seeds.is_generator_state(v)]
        values.update(seeds.generator_states(states, key, call_index))

        def current(variable):
            # Metrics have no part in the outputs.
            value = values.get(id(variable))
            return variable.value if value is None else value

        with self._scope():
            outputs, _ = model.stateless_call(
                [current(v) for v in model.trainable_variables],
                [current(v) for v in model.non_trainable_variables],
                x,
                **self._arguments,
            )
        return outputs
