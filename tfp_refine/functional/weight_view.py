"""Weights of a Keras model as one vector, and the model as its function."""

import hashlib
import inspect

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import layers
from tfp_refine.functional import data
from tfp_refine.functional import layer_calls
from tfp_refine.functional import program
from tfp_refine.functional import seeds


class WeightView:
    """The trainable weights of a model as one vector.

    Nothing is assigned to the model but by `assign`: it is called with weights
    and randomness that are arguments. The same arguments give the same outputs.

    Args:
        model: Built `keras.Model`, functional or subclassed.
        select: `"trainable"`: the vector holds the trainable weights, in the
            order of `model.trainable_weights`, each flattened. `"none"`: the
            vector is empty; the model is called with the weights it has.
        sample: Whether variational layers draw their weights.

    Attributes:
        has_shared: Whether draws share more than the inputs.
        num_factors: Number of arrays of the view itself, before the values of
            `fixed_variables` in `fixed`.
        variables: List of the `keras.Variable`s in the vector.
        fixed_variables: List of the model's other weights, such as moving
            averages.
    """

    has_shared = False
    num_factors = 0

    def __init__(self, model, select="trainable", *, sample=True):
        data.check_model(model)
        variables = []
        if select == "trainable":
            variables = list(model.trainable_weights)
            if not variables:
                raise ValueError(
                    f"The model '{model.name}' has no trainable weights."
                )
        self._set_up(model, select, variables, sample)

    def _set_up(self, model, select, variables, sample=True, one_dtype=True):
        self.model, self.select, self.variables = model, select, variables
        self.sample = bool(sample)
        selected = set(map(id, variables))
        self.fixed_variables = [
            w for w in model.weights if id(w) not in selected
        ]
        dtypes = {w.dtype for w in variables}
        if one_dtype and len(dtypes) > 1:
            raise ValueError(
                "All weights of the vector must have one dtype. Received: "
                f"{', '.join(sorted(dtypes))} in the model '{model.name}'"
            )
        self._takes_training = (
            "training" in inspect.signature(model.call).parameters
        )
        self._programs = {}

    @property
    def size(self):
        """`P`, the length of the vector."""
        return sum(_sizes(self.variables))

    @property
    def dtype(self):
        """Dtype of the vector."""
        dtypes = [v.dtype for v in self.variables]
        return tf.as_dtype(dtypes[0] if dtypes else keras.config.floatx())

    @property
    def is_random(self):
        """True if calls with the same weights differ by their key."""
        # Layers of Keras draw in training only.
        return any(
            layer._seed_generators
            and not type(layer).__module__.startswith("keras.")
            for layer in self.model._flatten_layers(include_self=True)
        )

    @property
    def shapes(self):
        """Shapes of the variables, those of the vector first."""
        return [list(w.shape) for w in (*self.variables, *self.fixed_variables)]

    def params(self, model=None):
        """Returns the current vector `[P]`, of this model or one like it."""
        like = self if model is None else type(self)(model, self.select)
        return flatten(like.variables, self.dtype)

    def fixed(self):
        """Returns the values of `fixed_variables`, a list of tensors."""
        return [tf.convert_to_tensor(v) for v in self.fixed_variables]

    def split(self, params):
        """Cuts a vector `[P]` into tensors of the shapes of `variables`."""
        return split(self.variables, params)

    def assign(self, params, fixed=None):
        """Sets the weights of the model, `fixed` ones too unless `None`."""
        variables, values = [*self.variables], self.split(params)
        if fixed is not None:
            variables += self.fixed_variables
            values += fixed
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    def call(self, x, params, fixed, key, index=0):
        """Computes the outputs `[B, ...]` (or nested), in inference mode.

        `key` is that of the random stream; calls with different values of
        `index` draw independently.
        """
        outputs, _ = self._stateless_call(x, params, fixed, key, index, False)
        return outputs

    def call_and_update(self, x, params, fixed, key, index, training):
        """Calls the model, in training mode or not.

        Returns the outputs, values of `fixed_variables` after the call, and the
        sum of the model's losses, a scalar.
        """
        outputs, updated, losses = self._stateless_call(
            x, params, fixed, key, index, training, return_losses=True
        )
        after = dict(
            zip(
                map(id, self.model.non_trainable_variables),
                updated,
                strict=True,
            )
        )
        before = zip(self.fixed_variables, fixed, strict=True)
        fixed = [after.get(id(v), value) for v, value in before]
        penalty = tf.add_n([tf.zeros([], self.dtype), *losses])
        return outputs, fixed, penalty

    def shared(self, x, fixed):
        """Computes, in a trace, the values that all draws share: the inputs."""
        del fixed
        return x

    def draws(self, shared, params, fixed, key, index):
        """Computes outputs under one draw of the weights, given `shared`."""
        return self.call(shared, params, fixed, key, index)

    def digest(self):
        """Returns a short text for the architecture and all its shapes."""
        hashed = hashlib.sha256()
        for layer in self.model._flatten_layers(include_self=False):
            hashed.update(layer_calls.description(layer).encode())
        hashed.update(repr(self.shapes).encode())
        return hashed.hexdigest()[:16]

    def compiled(self, name, function, arguments, varying):
        """Returns the `Program` of a named function, one per kind of inputs.

        `varying` says for each argument whether its first axis may change.
        """
        kind = repr(
            (
                name,
                tf.nest.map_structure(
                    lambda v: (tuple(v.shape[1:]), str(v.dtype)), arguments
                ),
            )
        )
        if kind not in self._programs:
            self._programs[kind] = program.Program(function, varying)
        return self._programs[kind]

    def _values(self, params):
        """Returns the values of the variables in the vector, by `id`."""
        return dict(
            zip(map(id, self.variables), self.split(params), strict=True)
        )

    def _stateless_call(
        self, x, params, fixed, key, index, training, return_losses=False
    ):
        model = self.model
        values = self._values(params)
        values.update(zip(map(id, self.fixed_variables), fixed, strict=True))
        states = [v for v in model.variables if seeds.is_generator_state(v)]
        values.update(seeds.generator_states(states, key, index))

        def current(variable):
            # Metrics have no part in the outputs.
            value = values.get(id(variable))
            return variable.value if value is None else value

        options = {"training": training} if self._takes_training else {}
        if return_losses:
            options["return_losses"] = True
        with layers.mean_weights(active=not self.sample):
            return model.stateless_call(
                [current(v) for v in model.trainable_variables],
                [current(v) for v in model.non_trainable_variables],
                x,
                **options,
            )


def flatten(variables, dtype):
    """Concatenates a list of tensors or variables to a vector, `[P]`."""
    return tf.concat(
        [
            tf.zeros([0], dtype),
            *(
                tf.reshape(tf.cast(tf.convert_to_tensor(v), dtype), [-1])
                for v in variables
            ),
        ],
        axis=0,
    )


def split(variables, vector):
    """Cuts a vector into tensors of the shapes and dtypes of variables."""
    if not variables:  # `tf.split` needs one
        return []
    return [
        tf.cast(tf.reshape(part, variable.shape), variable.dtype)
        for part, variable in zip(
            tf.split(vector, _sizes(variables)), variables, strict=True
        )
    ]


def _sizes(variables):
    return [int(np.prod(v.shape)) for v in variables]
