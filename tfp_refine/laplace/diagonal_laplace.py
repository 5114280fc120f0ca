"""Laplace's approximation of all layers, of small networks."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.functional import likelihoods
from tfp_refine.laplace import hessians
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


class DiagonalLaplace(laplace.Laplace):
    """Gaussian posterior of all weights of a small Keras model, independent.

    Its precisions are the diagonal of the generalized Gauss-Newton matrix plus
    the prior's precision. Each example needs the gradients of all outputs.

    That matrix is the curvature of the network linearized in its weights, and
    the Gaussian is a posterior of that network. So `predict_proba` predicts by
    the linearized network unless another method is named. `predict`,
    `summarize` and `sample` draw weights, as for any posterior, and so does
    `predict_proba(..., method="mc")`: such draws leave the region where the
    network is linear, and underfit badly unless the prior is narrow. For a
    regression use `predict_moments`.

    Weights are in the order of `model.trainable_weights`, each flattened.

    Args:
        model: As for `LastLayerLaplace`.
        likelihood: As for `LastLayerLaplace`.
        prior_precision: As for `LastLayerLaplace`.
        noise_scale: As for `LastLayerLaplace`.
        layer: As for `LastLayerLaplace`.

    Raises:
        ValueError: As for `LastLayerLaplace`.

    Attributes:
        hessian: `DiagonalHessian`; `None` before `fit`.

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
        - [Immer et al., 2021](https://arxiv.org/abs/2008.08400)
    """

    _default_method = "linearized"

    def __init__(
        self,
        model: keras.Model,
        likelihood: str,
        *,
        prior_precision: float = 1.0,
        noise_scale: float = 1.0,
        layer: keras.layers.Layer | str | None = None,
    ) -> None:
        view = functional.AllLayersView(model, layer)
        super().__init__(view, likelihood, prior_precision, noise_scale)

    def predict_proba(
        self,
        x: Any,
        num_samples: int = 100,
        *,
        method: str = "linearized",
        seed: int | None = None,
        batch_size: int = 1024,
    ) -> np.ndarray:
        """Computes class probabilities, averaged over the posterior.

        Args:
            x: As for `predict`.
            num_samples: As for `predict`, of `"mc"` and `"linearized"`.
            method: `"linearized"`: draws of the outputs of the linearized
                network, for each input alone. `"probit"` and `"mean_field"`:
                approximations of their average, in closed form. `"mc"`: the
                average over the draws of `predict`.
            seed: As for `predict`.
            batch_size: As for `predict`.

        Returns:
            probs: `numpy` array `[N, C]`, as for any posterior.

        Raises:
            ValueError: As for any posterior.
        """
        return super().predict_proba(
            x, num_samples, method=method, seed=seed, batch_size=batch_size
        )

    def output_root(self, inputs: Any) -> tf.Tensor:
        """Computes roots `R` of the linearized outputs' covariances `R R^T`.

        Args:
            inputs: Inputs of the view, `[B, ...]` (or nested).

        Returns:
            root: float64, `[B, C, R]`.
        """
        jacobian = self._jacobian(inputs, self.loc, self.fixed)
        return tf.cast(jacobian, tf.float64) * self.covariance.scale

    def output_variance(self, inputs: Any) -> tf.Tensor:
        """Computes the variances of the linearized outputs.

        Args:
            inputs: As for `output_root`.

        Returns:
            variance: float64, `[B, C]`.
        """
        return tf.reduce_sum(tf.square(self.output_root(inputs)), axis=-1)

    def _numbers(self):
        size = self.view.num_outputs * self.view.size
        return hessians.Numbers(size, size, size)

    def _terms(self, inputs, outputs, likelihood, weights, loc, fixed):
        jacobian = self._jacobian(inputs, loc, fixed)
        hessian = likelihoods.weighed(
            likelihood.output_hessian(outputs), weights
        )
        hessian = tf.cast(hessian, jacobian.dtype)
        # Of each example and weight, a quadratic form of the outputs.
        return (
            tf.reduce_sum(jacobian * tf.matmul(hessian, jacobian), axis=[0, 1]),
        )

    def _jacobian(self, inputs, loc, fixed):
        """Computes derivatives of the outputs in the weights, `[B, C, P]`."""
        program = self.view.compiled(
            "jacobian", self._trace, inputs, (False, False, True)
        )
        return program(tf.constant(loc, self.view.dtype), list(fixed), inputs)

    def _trace(self, theta, fixed, inputs):
        view = self.view

        def of_example(example):
            one = keras.tree.map_structure(
                lambda leaf: leaf[tf.newaxis], example
            )
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(theta)
                outputs = tf.unstack(view.outputs(theta, one, fixed)[0])
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

        layers = view.model._flatten_layers()
        if all(isinstance(layer, _VECTORIZABLE) for layer in layers):
            return tf.vectorized_map(of_example, inputs)
        return tf.map_fn(
            of_example,
            inputs,
            fn_output_signature=tf.TensorSpec(
                [view.num_outputs, view.size], theta.dtype
            ),
        )
