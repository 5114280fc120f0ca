"""The last dense layer of a trained, deterministic network."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.functional import data
from tfp_refine.functional import layer_calls
from tfp_refine.functional import model_inputs
from tfp_refine.functional import weight_view

# How far outputs may be from those of the last layer, by compute dtype.
_TOLERANCES = {"float64": 1e-6, "float32": 1e-3}
_TOLERANCE_OF_HALF = 5e-2
# Examples of which outputs are looked at.
_NUM_SEEN = 256
ACTIVATIONS = {
    "linear": tf.identity,
    "sigmoid": tf.sigmoid,
    "softmax": tf.nn.softmax,
}


class OutputLayerView(weight_view.WeightView):
    """View of a trained network whose last weighted layer is dense.

    What that layer computes before its activation is called outputs here: the
    logits of a classifier. The model is not changed.

    Attributes:
        layer: The dense layer, given as such or by name, or found; `None` where
            the model must be called on data first to find it.
        activation: Name of the activation between outputs and what the model
            returns, once `find_activation` has found it.
    """

    def __init__(self, model, select, layer=None):
        data.check_model(model)
        if any(
            getattr(inner, "variational_weights", ())
            for inner in model._flatten_layers()
        ):
            raise ValueError(
                f"The model '{model.name}' has variational layers, and so a "
                "posterior already: a trained model without them is needed."
            )
        layer_calls.check_no_functions(model)
        super().__init__(model, select)
        # The model as it stands, whatever the vector holds.
        self._trained = weight_view.WeightView(model, "none")
        self.layer = self.activation = None
        if layer is not None:
            self._use(layer_calls.find_layer(model, layer))
        elif getattr(model, "inputs", None):
            is_sequential = isinstance(model, keras.Sequential)
            self._find(model.inputs[0] if is_sequential else model.input)

    @property
    def num_outputs(self):
        """`C`, the units of the last layer."""
        return self.layer.units

    @property
    def compute_dtype(self):
        """Dtype of outputs: float64 for a layer of that, else float32."""
        is_double = self.layer.variable_dtype == "float64"
        return tf.float64 if is_double else tf.float32

    def fit_inputs(self, x):
        """Returns inputs as the model takes them.

        Finds the last layer if it is not known yet.
        """
        x = model_inputs.fit(self.model, x)
        if self.layer is None:
            self._find(x)
        return x

    def find_activation(self, x, activations):
        """Finds the name of the activation after the last layer.

        Raises a `ValueError` if it is none of `activations`, functions by name.
        """
        last = data.num_examples(x) - 1
        rows = np.unique(np.linspace(0, last, _NUM_SEEN).astype(int))
        few = keras.tree.map_structure(lambda leaf: tf.gather(leaf, rows), x)
        _, outputs, returned = self.observe(few, self._trained.fixed())
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
                self.activation = name
                return name
        raise ValueError(
            f"What the model '{self.model.name}' returns must be the outputs "
            f"of its last dense layer '{self.layer.name}', with the activation "
            f"{' or '.join(activations)}. It returns something else."
        )

    def observe(self, x, weights):
        """Calls the model with `weights`, of all its variables in their order.

        Returns the inputs of the last layer, `[B, F]`, its outputs before its
        activation, `[B, C]`, and what the model returns, `[B, C]`.
        """
        seen = []

        def observer(layer, features):
            dtype = self.compute_dtype
            features = tf.cast(features, dtype)
            # In the scope of the call, these are the given weights.
            outputs = tf.matmul(features, _value(layer.kernel, dtype))
            if layer.use_bias:
                outputs += _value(layer.bias, dtype)
            seen.append((features, outputs))

        with layer_calls.observe([self.layer], observer):
            returned = self._trained.call(x, self._trained.params(), weights, 0)
        if len(seen) != 1:
            raise ValueError(
                f"The model '{self.model.name}' must call its last layer "
                f"'{self.layer.name}' once. It did {len(seen)} times."
            )
        (found,) = seen
        if len(found[0].shape) != 2:
            raise ValueError(
                f"The last layer '{self.layer.name}' must get one vector for "
                f"each example, [N, F]. It gets shape {found[0].shape}."
            )
        return *found, returned

    def digest(self):
        """Returns a short text for the architecture and the last layer."""
        position = layer_calls.layers_with_weights(self.model).index(self.layer)
        return f"{super().digest()}-{position}"

    def _find(self, x):
        """Finds the last layer, from inputs `[N, ...]`, or symbolic ones."""
        specs = data.specs(x)
        function = tf.function(
            lambda x: self._trained.call(
                x, self._trained.params(), self._trained.fixed(), 0
            )
        )
        self._use(
            layer_calls.last_with_weights(
                self.model,
                lambda: function.get_concrete_function(specs),
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
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"The last layer '{layer.name}' must have the activation "
                f"{', '.join(ACTIVATIONS)} or none. Received: {activation}"
            )
        self.layer = layer


def _value(variable, dtype):
    return tf.cast(keras.ops.convert_to_tensor(variable), dtype)
