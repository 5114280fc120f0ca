"""The last layer, or all layers, of a network as one vector with outputs."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.functional import data
from tfp_refine.functional import output_layer

# Examples of which are checked at a time whether their features are finite.
_CHECKED = 1024


class LastLayerView(output_layer.OutputLayerView):
    """The weights of the last linear layer of a network as one vector.

    The vector is `Theta [C, F + 1]` row by row, with the bias at the end of
    each row if there is one: the outputs are `Theta phi` for features `phi`,
    the inputs of the layer with a 1 at the end. All draws of the vector share
    the features, which are computed once. Where examples have positions,
    features are `[B, ..., F + 1]` and outputs `[B, ..., C]`.
    """

    has_shared = True

    def __init__(self, model, layer=None):
        super().__init__(model, "none", layer)
        self.select = "last_layer"

    @property
    def num_features(self):
        """`F`, the inputs of the layer, and 1 for its bias."""
        return self.layer.kernel.shape[-2] + int(self.has_bias)

    @property
    def size(self):
        """`P`, the number of weights."""
        return self.num_outputs * self.num_features

    @property
    def dtype(self):
        """Dtype of outputs and of the vector."""
        return tf.float32 if self.layer is None else self.compute_dtype

    def params(self, model=None):
        """Returns the trained weights, float64 array, `[P]`."""
        layer = self.layer
        if model is not None:
            layer = LastLayerView(model, self.layer.name).layer
        kernel = keras.ops.convert_to_numpy(layer.kernel)
        theta = kernel.reshape(kernel.shape[-2:]).T
        if layer.bias is not None:
            bias = keras.ops.convert_to_numpy(layer.bias)
            theta = np.concatenate([theta, bias[:, np.newaxis]], axis=1)
        return theta.astype(np.float64).reshape(-1)

    def split(self, params):
        """Cuts a vector into kernel and bias, a list of tensors."""
        theta = tf.reshape(params, [self.num_outputs, self.num_features])
        if not self.has_bias:
            return [tf.transpose(theta)]
        return [tf.transpose(theta[:, :-1]), theta[:, -1]]

    def assign(self, params, fixed=None):
        """Sets the weights of the model, as `WeightView`."""
        self._trained.assign([], fixed)
        variables = [self.layer.kernel]
        if self.has_bias:
            variables.append(self.layer.bias)
        for variable, value in zip(variables, self.split(params), strict=True):
            value = tf.reshape(value, variable.shape)
            variable.assign(tf.cast(value, variable.dtype))

    def shared(self, x, fixed):
        """Computes features in a trace, `[B, F + 1]`, as `WeightView`."""
        features = self.observe(x, fixed).features
        if self.has_bias:
            before = [[0, 0]] * (len(features.shape) - 1)
            features = tf.pad(features, [*before, [0, 1]], constant_values=1.0)
        return features

    def mask(self, x, fixed=None):
        """Computes which positions count, booleans `[N, ...]`."""
        fixed = self.fixed() if fixed is None else list(fixed)
        program = self.compiled(
            "mask",
            lambda x, fixed: self.observe(x, fixed).mask,
            x,
            (True, False),
        )
        return program(x, fixed).numpy()

    def draws(self, shared, params, fixed, key, index):
        """Computes the model's outputs from features, as `WeightView`."""
        del fixed, key, index
        outputs = self.outputs(params, shared)
        return output_layer.ACTIVATIONS[self.activation](outputs)

    def call(self, x, params, fixed, key, index=0):
        """Computes the model's outputs, `[B, C]`, as `WeightView`."""
        return self.draws(self.shared(x, fixed), params, fixed, key, index)

    def inputs(self, x, batch_size, on_batch=None, fixed=None):
        """Computes features, once for all that is done with them, `[N, F + 1]`.

        Or `[N, ..., F + 1]` of positions. They are a float32 (or float64)
        array. `batch_size` examples are computed at a time; `on_batch` is
        called with the number of those done. Raises a `ValueError` if features
        are not finite.
        """
        num_examples = data.num_examples(x)
        fixed = self.fixed() if fixed is None else list(fixed)
        program = self.compiled("shared", self.shared, x, (True, False))
        features = None
        for begin in range(0, num_examples, batch_size):
            rows = slice(begin, begin + batch_size)
            block = program(data.take(x, rows), fixed)
            if features is None:
                features = np.empty(
                    [num_examples, *block.shape[1:]], self.dtype.as_numpy_dtype
                )
            features[rows] = block
            if on_batch is not None:
                on_batch(min(begin + batch_size, num_examples))
        self.check_features(features)
        return features

    def check_features(self, features):
        """Raises a `ValueError` unless features `[N, F + 1]` are finite."""
        features = features.reshape(len(features), -1)
        bad = sum(
            np.count_nonzero(~np.isfinite(rows).all(axis=1))
            for rows in np.array_split(features, -(-len(features) // _CHECKED))
        )
        if bad:
            raise ValueError(
                f"The features before the layer '{self.layer.name}' must be "
                f"finite. Received: {bad} of {len(features)} examples with NaN "
                "or infinite features; has the training diverged?"
            )

    def outputs(self, theta, features, fixed=None):
        """Computes outputs `[..., B, C]`.

        They are of weights `theta [..., P]` and `features [B, F + 1]`, or of
        positions, `[..., B, ..., C]`.
        """
        del fixed
        theta_shape = tf.concat(
            [tf.shape(theta)[:-1], [self.num_outputs, self.num_features]], 0
        )
        rows = tf.reshape(features, [-1, self.num_features])
        outputs = tf.matmul(
            tf.cast(rows, theta.dtype),
            tf.reshape(theta, theta_shape),
            transpose_b=True,
        )
        if len(features.shape) == 2:
            return outputs
        shape = [tf.shape(theta)[:-1], tf.shape(features)[:-1]]
        return tf.reshape(outputs, tf.concat([*shape, [self.num_outputs]], 0))


class AllLayersView(output_layer.OutputLayerView):
    """All trainable weights of a network whose last layer is dense."""

    def __init__(self, model, layer=None):
        super().__init__(model, "trainable", layer)

    def params(self, model=None):
        """Returns the trained weights, float64 array, `[P]`."""
        return super().params(model).numpy().astype(np.float64)

    def find_positions(self, x):
        """Raises a `ValueError` if there are any, as `OutputLayerView`."""
        super().find_positions(x)
        self.check_no_positions()

    def inputs(self, x, batch_size, on_batch=None, fixed=None):
        """Returns the inputs as they are: nothing is computed once for all."""
        del batch_size, on_batch, fixed
        return x

    def outputs(self, theta, x, fixed=None):
        """Computes outputs `[B, C]` or `[S, B, C]`, of `theta [P]` or `[S, P]`.

        `fixed` are values of `fixed_variables`; those of the model if `None`.
        """
        fixed = self.fixed() if fixed is None else fixed
        if len(theta.shape) == 1:
            return self._outputs(theta, x, fixed)
        return tf.map_fn(
            lambda one: self._outputs(one, x, fixed),
            theta,
            fn_output_signature=tf.TensorSpec(
                [None, self.num_outputs], theta.dtype
            ),
        )

    def _outputs(self, theta, x, fixed):
        values = self._values(theta)
        values.update(zip(map(id, self.fixed_variables), fixed, strict=True))
        weights = [values[id(v)] for v in self._trained.fixed_variables]
        return tf.cast(self.observe(x, weights).outputs, theta.dtype)
