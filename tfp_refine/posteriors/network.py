"""A trained network whose last weighted layer is dense."""

import hashlib

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.posteriors import calls

# How far outputs may be from those of the last layer, by compute dtype.
_TOLERANCES = {"float64": 1e-6, "float32": 1e-3}
_TOLERANCE_OF_HALF = 5e-2
# Examples of which outputs are looked at.
_NUM_SEEN = 256
_ACTIVATIONS = ("linear", "sigmoid", "softmax")


class Network:
    """A trained, deterministic model as a function of a vector of weights.

    What it returns is called outputs as long as it has not passed the
    activation at its end: the logits of a classifier.

    Args:
        model: Built `keras.Model`. It is not changed, and must not be
            trained on.
        layer: Its last layer with weights, a `keras.layers.Dense`, or its
            name; found if `None`.

    Raises:
        ValueError: If it is no such model, or the layer is no such layer.

    Attributes:
        model: The model.
        layer: The dense layer; `None` where the model must be called on data
            first to find it.
    """

    def __init__(self, model, layer=None):
        calls.check_model(model)
        functional.arrays.check_built(model)
        if any(
            getattr(inner, "variational_weights", ())
            for inner in model._flatten_layers()
        ):
            raise ValueError(
                f"The model '{model.name}' has variational layers, and so a "
                "posterior already: a trained model without them is needed."
            )
        calls.check_no_functions(model)
        self.model = model
        self.layer = None
        self._forward = functional.Forward(model)
        self._programs = {}
        if layer is not None:
            self.use_layer(layer)
        elif getattr(model, "inputs", None):
            is_sequential = isinstance(model, keras.Sequential)
            self._find(model.inputs[0] if is_sequential else model.input)

    @property
    def num_outputs(self):
        """`C`, the units of the last layer."""
        return self.layer.units

    def use_layer(self, layer):
        """Chooses the last layer.

        Args:
            layer: The layer, or its name.

        Raises:
            ValueError: If there is no such layer, or it is not dense.
        """
        self._use(calls.find_layer(self.model, layer))

    @property
    def dtype(self):
        """What is computed in: float64 for a layer of that, else float32."""
        is_double = self.layer.variable_dtype == "float64"
        return tf.float64 if is_double else tf.float32

    def digest(self):
        """Returns a short text that tells models, and their weights, apart."""
        hashed = hashlib.sha256()
        for layer in self.model._flatten_layers(include_self=False):
            hashed.update(calls.description(layer).encode())
        for weight in self.model.weights:
            value = keras.ops.convert_to_numpy(weight)
            hashed.update(f"{value.shape}{value.dtype}".encode())
            hashed.update(np.ascontiguousarray(value).tobytes())
        return hashed.hexdigest()[:16]

    def check_inputs(self, x):
        """Checks inputs, and finds the last layer if it is not known yet.

        Args:
            x: Inputs, tensors `[N, ...]` (or nested).

        Raises:
            ValueError: If the model cannot be called on them, or there is no
                such layer.
        """
        functional.arrays.check_fits(self.model, x)
        if self.layer is None:
            self._find(x)

    def find_activation(self, x, activations):
        """Finds the activation after the last layer.

        Args:
            x: Inputs, tensors `[N, ...]` (or nested).
            activations: Dict of those that there may be, functions by name.

        Returns:
            name: Of the activation.

        Raises:
            ValueError: If the model returns something else.
        """
        count = keras.tree.flatten(x)[0].shape[0]
        rows = np.unique(np.linspace(0, count - 1, _NUM_SEEN).astype(int))
        few = keras.tree.map_structure(lambda leaf: tf.gather(leaf, rows), x)
        _, outputs, returned = self._call(few, self._forward.other_values())
        if not tf.is_tensor(returned):
            raise ValueError(
                f"The model '{self.model.name}' must return one tensor. It "
                f"returns {len(keras.tree.flatten(returned))}."
            )
        if not np.isfinite(outputs).all():
            raise ValueError(
                f"The outputs of the model '{self.model.name}' must be finite. "
                "They hold NaN or infinity: has the training diverged?"
            )
        tolerance = _TOLERANCES.get(
            self.layer.compute_dtype, _TOLERANCE_OF_HALF
        )
        for name, activation in activations.items():
            expected = activation(outputs)
            if np.shape(returned) == expected.shape and np.allclose(
                expected,
                tf.cast(returned, expected.dtype),
                rtol=tolerance,
                atol=tolerance * float(tf.reduce_max(tf.abs(expected))),
            ):
                return name
        raise ValueError(
            f"What the model '{self.model.name}' returns must be the outputs "
            f"of its last dense layer '{self.layer.name}', with the activation "
            f"{' or '.join(activations)}. It returns something else."
        )

    def _call(self, x, weights):
        """Calls the model.

        Args:
            x: Inputs, `[B, ...]` (or nested).
            weights: Values of the model's weights, in their order.

        Returns:
            features: Inputs of the last layer, `[B, P]`.
            outputs: Its outputs before its activation, `[B, C]`.
            returned: What the model returns, `[B, C]`.
        """
        seen = []

        def observer(layer, features):
            dtype = self.dtype
            features = tf.cast(features, dtype)
            # In the scope of the call, these are the given weights.
            outputs = tf.matmul(features, _value(layer.kernel, dtype))
            if layer.use_bias:
                outputs += _value(layer.bias, dtype)
            seen.append((features, outputs))

        with calls.observe([self.layer], observer):
            returned = self._forward(x, None, weights, 0, 0)
        if len(seen) != 1:
            raise ValueError(
                f"The model '{self.model.name}' must call its last layer "
                f"'{self.layer.name}' once. It did {len(seen)} times."
            )
        (found,) = seen
        if len(found[0].shape) != 2:
            raise ValueError(
                f"The last layer '{self.layer.name}' must get one vector for "
                f"each example, [N, P]. It gets shape {found[0].shape}."
            )
        return *found, returned

    def _program(self, x, function):
        """Finds the program that calls a function for inputs of this kind.

        Args:
            x: Inputs, `[B, ...]` (or nested).
            function: Function of the inputs and the model's weights, the same
                at each call of this.

        Returns:
            call: Function of inputs alone.
        """
        specs = keras.tree.map_structure(lambda v: (v.shape[1:], v.dtype), x)
        program = self._programs.setdefault(
            repr(specs), functional.Program(function, varying=(True, False))
        )
        return lambda x: program(x, self._forward.other_values())

    def _find(self, x):
        """Finds the last layer, from inputs `[N, ...]`, or symbolic ones."""
        specs = keras.tree.map_structure(
            lambda leaf: tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype), x
        )
        function = tf.function(
            lambda x: self._forward(x, None, self._forward.other_values(), 0, 0)
        )
        self._use(
            calls.last_with_weights(
                self.model, lambda: function.get_concrete_function(specs)
            )
        )

    def _use(self, layer):
        if not isinstance(layer, keras.layers.Dense):
            raise ValueError(
                f"The last layer with weights of the model '{self.model.name}' "
                f"must be a keras.layers.Dense. Received: '{layer.name}', a "
                f"{type(layer).__name__}"
            )
        activation = getattr(layer.activation, "__name__", None)
        if activation not in _ACTIVATIONS:
            raise ValueError(
                f"The last layer '{layer.name}' must have the activation "
                f"{', '.join(_ACTIVATIONS)} or none. Received: {activation}"
            )
        self.layer = layer


def _value(variable, dtype):
    return tf.cast(keras.ops.convert_to_tensor(variable), dtype)
