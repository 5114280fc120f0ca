"""Laplace's approximation of all layers, of small networks."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.laplace import bases
from tfp_refine.laplace import laplace

# Layers whose examples are vectorized; recurrence and attention fail so, the
# latter at times by a crash. One example after another is slower, and right.
_VECTORIZABLE = (
    keras.Model,
    keras.layers.Activation,
    keras.layers.Add,
    keras.layers.AveragePooling2D,
    keras.layers.BatchNormalization,
    keras.layers.Concatenate,
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Dense,
    keras.layers.Dropout,
    keras.layers.Embedding,
    keras.layers.Flatten,
    keras.layers.GlobalAveragePooling1D,
    keras.layers.GlobalAveragePooling2D,
    keras.layers.InputLayer,
    keras.layers.LayerNormalization,
    keras.layers.MaxPooling2D,
    keras.layers.ReLU,
    keras.layers.Rescaling,
    keras.layers.Reshape,
    keras.layers.Softmax,
)
# Numbers of a block of Jacobians: 64 MiB of float32.
_MAX_NUMBERS = 2**24


class DiagonalLaplace(laplace.Laplace):
    """Gaussian posterior of all weights of a small Keras model, independent.

    Its precisions are the diagonal of the generalized Gauss-Newton matrix plus
    the prior's precision. Each example needs the gradients of all outputs.

    Weights are in the order of `model.trainable_variables`, each flattened.

    Args:
        model: As for `LastLayerLaplace`.
        likelihood: As for `LastLayerLaplace`.
        prior_precision: As for `LastLayerLaplace`.
        noise_scale: As for `LastLayerLaplace`.
        layer: As for `LastLayerLaplace`.

    Raises:
        ValueError: As for `LastLayerLaplace`.

    Example:

    ```python
    laplace = tfp_refine.laplace.DiagonalLaplace(model, "classification")
    laplace.fit(x_train, y_train)
    laplace.optimize_prior_precision(
        "grid_search", validation_data=(x_validation, y_validation)
    )
    ```

    Reference:
        - [Ritter et al., 2018](https://openreview.net/forum?id=Skdvd2xAZ)
    """

    def __init__(
        self,
        model,
        likelihood,
        *,
        prior_precision=1.0,
        noise_scale=1.0,
        layer=None,
    ):
        network = posteriors.AllLayers(model, layer)
        super().__init__(network, likelihood, prior_precision, noise_scale)
        self._jacobians = {}

    def output_root(self, inputs):
        """Computes roots of the outputs' covariances, as `Laplace` says."""
        jacobian = self._jacobian(inputs, self.mean)
        return tf.cast(jacobian, tf.float64) * self.scale

    def output_variance(self, inputs):
        """Computes the variances of the outputs, as `Laplace` says."""
        return tf.reduce_sum(tf.square(self.output_root(inputs)), axis=-1)

    def numbers_of_root(self):
        """Returns how many numbers an example needs in `output_root`."""
        return self.network.num_outputs * self.network.size

    def numbers_of_variance(self):
        """Returns how many numbers an example needs in `output_variance`."""
        return self.numbers_of_root()

    def _options(self):
        return {}

    def _basis_class(self):
        return bases.Identity

    def _curvature(self, inputs, targets, mean):
        likelihood = self._unit_likelihood()
        theta = tf.constant(mean)
        size = max(1, _MAX_NUMBERS // self.numbers_of_root())
        diagonal, statistic = np.zeros(len(mean)), 0.0
        for begin in range(0, len(targets), size):
            rows = slice(begin, begin + size)
            block = posteriors.take(inputs, rows)
            outputs = self.network.outputs(theta, block)
            statistic += likelihood.statistic(targets[rows], outputs)
            jacobian = self._jacobian(block, mean)
            hessian = tf.cast(
                likelihood.output_hessian(outputs), jacobian.dtype
            )
            # Of each example and weight, a quadratic form of the outputs.
            diagonal += tf.reduce_sum(
                jacobian * tf.matmul(hessian, jacobian), axis=[0, 1]
            ).numpy()
        return bases.Identity(diagonal, self.network.num_outputs), statistic

    def _jacobian(self, inputs, mean):
        """Computes derivatives of the outputs in the weights, `[B, C, D]`."""
        specs = keras.tree.map_structure(
            lambda v: (v.shape[1:], v.dtype), inputs
        )
        program = self._jacobians.setdefault(
            repr(specs),
            functional.Program(self._jacobian_program, varying=(False, True)),
        )
        return program(tf.constant(mean, self.network.dtype), inputs)

    def _jacobian_program(self, theta, inputs):
        def of_example(example):
            one = keras.tree.map_structure(
                lambda leaf: leaf[tf.newaxis], example
            )
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(theta)
                outputs = tf.unstack(self.network.outputs(theta, one)[0])
            return tf.stack(
                [
                    tape.gradient(
                        output,
                        theta,
                        unconnected_gradients=tf.UnconnectedGradients.ZERO,
                    )
                    for output in outputs
                ]
            )

        if all(map(_is_vectorizable, self.network.model._flatten_layers())):
            return tf.vectorized_map(of_example, inputs)
        return tf.map_fn(
            of_example,
            inputs,
            fn_output_signature=tf.TensorSpec(
                [self.network.num_outputs, self.network.size], theta.dtype
            ),
        )


def _is_vectorizable(layer):
    return isinstance(layer, _VECTORIZABLE)
