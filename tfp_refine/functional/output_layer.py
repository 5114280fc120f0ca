"""The last linear layer of a trained, deterministic network."""

import re
from typing import NamedTuple

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


# Of kernels of one position, these are dense layers of each position.
_CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)


class Seen(NamedTuple):
    """The last layer in a call of a model.

    Of models that return averages over positions, `[B, C]`, features and
    outputs are averages too, as these are linear.

    Attributes:
        features: The layer's inputs, `[B, F]`, or `[B, ..., F]` of positions.
        outputs: Before the layer's activation, `[B, C]` or `[B, ..., C]`.
        returned: Result of the model.
        mask: Boolean, `[B, ...]`: positions that count; `None` for all.
    """

    features: tf.Tensor
    outputs: tf.Tensor
    returned: tf.Tensor
    mask: tf.Tensor | None


class OutputLayerView(weight_view.WeightView):
    """View of a trained network whose last weighted layer is linear.

    It is a dense layer, an einsum layer that computes the same, or a
    convolution by kernels of one position, perhaps inside another layer or
    model. Its values before its activation are called
    outputs here: the logits of a classifier, or of each position, such
    as tokens or pixels. The model is not changed.

    Attributes:
        layer: The last layer, given as such or by name, or found; `None` where
            the model must be called on data first to find it.
        activation: Name of the activation between outputs and the result of
            the model, once `find_activation` has found it.
        positions: Shape of an example's positions, `()` if it has outputs
            `[C]`; `None` where it is not known yet.
        has_mask: Whether positions may be masked, once `positions` are known.
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
        self.layer = self.activation = self.positions = None
        self.has_mask = False
        if layer is not None:
            self._use(layer_calls.find_layer(model, layer))
        elif getattr(model, "inputs", None):
            is_sequential = isinstance(model, keras.Sequential)
            self._find(model.inputs[0] if is_sequential else model.input)

    @property
    def num_outputs(self):
        """`C`, the units of the last layer."""
        return self.layer.kernel.shape[-1]

    @property
    def has_bias(self):
        """True if the last layer has a bias."""
        return self.layer.bias is not None

    @property
    def compute_dtype(self):
        """Dtype of outputs: float64 for a layer of that, else float32."""
        is_double = self.layer.variable_dtype == "float64"
        return tf.float64 if is_double else tf.float32

    def describe_layer(self):
        """Describes the last layer: its path, class, and features to outputs.

        `None` where it is not known yet.
        """
        if self.layer is None:
            return None
        kernel, names = self.layer.kernel, self.layer.path.split("/")
        path = "/".join(names[names[0] == self.model.name :])
        return (
            f"{path}: {type(self.layer).__name__}, {kernel.shape[-2]} features "
            f"to {kernel.shape[-1]} outputs"
        )

    def fit_inputs(self, x):
        """Returns inputs as the model takes them.

        Finds the last layer if it is not known yet.
        """
        x = model_inputs.fit(self.model, x)
        if self.layer is None:
            self._find(x)
        return x

    def find_positions(self, x):
        """Finds `positions`, from inputs `[N, ...]`."""
        if self.positions != ():
            one = keras.tree.map_structure(lambda leaf: leaf[:1], x)
            seen = self.observe(one, self._trained.fixed())
            self.positions = tuple(seen.outputs.shape[1:-1])
            self.has_mask = seen.mask is not None

    def check_no_positions(self):
        """Raises a `ValueError` if examples have positions."""
        if self.positions:
            raise ValueError(
                f"The last layer '{self.layer.name}' must get one vector for "
                "each example, [N, F]. It gets positions of shape "
                f"{self.positions}, for which there is a Laplace approximation "
                "of the last layer alone."
            )

    def find_activation(self, x, activations):
        """Finds the name of the activation after the last layer.

        Raises a `ValueError` if it is none of `activations`, functions by name.
        """
        last = data.num_examples(x) - 1
        rows = np.unique(np.linspace(0, last, _NUM_SEEN).astype(int))
        few = keras.tree.map_structure(lambda leaf: tf.gather(leaf, rows), x)
        _, outputs, returned, _ = self.observe(few, self._trained.fixed())
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
            f"The model '{self.model.name}' must return the outputs of its "
            f"last layer '{self.layer.name}', or their averages over "
            f"positions, with the activation {' or '.join(activations)}. It "
            "returns something else."
        )

    def observe(self, x, weights):
        """Calls the model with `weights`, of all its variables in their order.

        Returns the last layer as `Seen`.
        """
        seen = []

        def observer(layer, inputs):
            dtype = self.compute_dtype
            features = tf.cast(inputs, dtype)
            # In the scope of the call, these are the given weights.
            kernel = _value(layer.kernel, dtype)
            outputs = tf.tensordot(features, _matrix(kernel), 1)
            if layer.bias is not None:
                outputs += _value(layer.bias, dtype)
            seen.append(
                (features, outputs, getattr(inputs, "_keras_mask", None))
            )

        with layer_calls.observe([self.layer], observer):
            returned = self._trained.call(x, self._trained.params(), weights, 0)
        if len(seen) != 1:
            raise ValueError(
                f"The model '{self.model.name}' must call its last layer "
                f"'{self.layer.name}' once. It did {len(seen)} times."
            )
        features, outputs, mask = seen[0]
        if len(features.shape) > 2 and _has_no_positions(returned):
            features, outputs = map(_average, (features, outputs))
            mask = None
        return Seen(features, outputs, returned, mask)

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
        concrete = []
        layer, shape = layer_calls.last_with_weights(
            self.model,
            lambda: concrete.append(function.get_concrete_function(specs)),
        )
        self._use(layer)
        if len(shape) == 2 or _has_no_positions(concrete[0].structured_outputs):
            self.positions = ()

    def _use(self, layer):
        if not (
            isinstance(layer, keras.layers.Dense)
            or _is_pointwise(layer)
            or _is_dense_einsum(layer)
        ):
            raise ValueError(
                f"The last layer with weights of the model '{self.model.name}' "
                "must be a keras.layers.Dense, an EinsumDense that computes "
                "the same, such as '...a,ab->...b' with a bias of 'b' or none, "
                "or a convolution of channels that come last, with kernels of "
                "1, strides of 1 and one group. "
                f"Received: '{layer.name}', a {type(layer).__name__}"
                f"{_sizes(layer)}"
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


def _matrix(kernel):
    """Returns a kernel of one position as a matrix, `[F, C]`."""
    return tf.reshape(kernel, kernel.shape[-2:])


def _average(values):
    """Averages over positions."""
    return tf.reduce_mean(values, axis=range(1, len(values.shape) - 1))


def _has_no_positions(returned):
    return tf.is_tensor(returned) and len(returned.shape) == 2


def _is_pointwise(layer):
    return (
        isinstance(layer, _CONVOLUTIONS)
        and {*layer.kernel_size, *layer.strides, layer.groups} == {1}
        and layer.data_format == "channels_last"
    )


def _is_dense_einsum(layer):
    """Checks whether an einsum maps the last axis of inputs to units."""
    if not isinstance(layer, keras.layers.EinsumDense):
        return False
    inputs, kernel, outputs = re.split(",|->", layer.equation)
    if len(kernel) != 2:
        return False
    feature, unit = kernel
    others = inputs[:-1]
    return (
        inputs == others + feature
        and outputs == others + unit
        and not {feature, unit} & {*others}
        and layer.bias_axes in (None, unit)
    )


def _sizes(layer):
    names = ("kernel_size", "strides", "groups", "data_format")
    if isinstance(layer, keras.layers.EinsumDense):
        names = ("equation", "bias_axes")
    elif not isinstance(layer, _CONVOLUTIONS):
        names = ()
    found = [f"{name}={getattr(layer, name)!r}" for name in names]
    return f" of {', '.join(found)}" if found else ""
