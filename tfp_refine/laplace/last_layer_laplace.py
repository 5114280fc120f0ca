"""Laplace's approximation of the last layer."""

from typing import Any

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.laplace import hessians
from tfp_refine.laplace import laplace

# Weights that the full Hessian has room for: two matrices of 3 GiB.
_MAX_FULL = 20000


class LastLayerLaplace(laplace.Laplace):
    """Gaussian posterior of the last layer of any trained Keras model.

    The model is called once on the training data; all else happens on the
    features before its last layer. The posterior is that of a generalized
    linear model: its mean are the trained weights, its precision the exact
    Hessian of the negative log likelihood (or an approximation of it) plus the
    prior's precision.

    Weights are in the order of `Theta [C, F]`, row by row: those of an output,
    then its bias (if the layer has one).

    Besides draws of weights, `predict_proba` has these methods:
    `"linearized"`, draws of the Gaussian outputs, for each input alone, which
    is exact too; `"probit"` and `"mean_field"`, approximations in closed form.

    Args:
        model: Built `keras.Model`, functional, Sequential or subclassed, whose
            last layer with weights is a `keras.layers.Dense`, an `EinsumDense`
            that computes the same, or a convolution with kernels and strides of
            1, also inside another layer or model.
            It may return logits or, after a softmax (or a sigmoid, for one
            output or several labels), probabilities: `[N, C]`, also of outputs
            that were averaged over positions, such as pixels; or of each
            position, `[N, ..., C]`, such as tokens, all of which are examples
            then but for those that Keras masks. It is not changed.
        likelihood: "classification", of classes that exclude each other;
            "multilabel", of labels that do not; or "regression".
        hessian: "full"; "kron", the Kronecker product of a factor of the
            outputs and one of the features, for thousands of classes; or
            "diag".
        prior_precision: 1 / variance of the prior of each weight, which has
            the mean 0; see `optimize_prior_precision`.
        noise_scale: Standard deviation of the noise, for "regression".
        layer: The last layer, or its name; found if `None`.

    Raises:
        ValueError: If an argument is invalid, or the model's last layer with
            weights is neither.

    Attributes:
        hessian: `FullHessian`, `KroneckerHessian` or `DiagonalHessian`; `None`
            before `fit`.

    Example:

    ```python
    laplace = tfp_refine.laplace.LastLayerLaplace(model, "classification")
    laplace.fit(x_train, y_train)
    laplace.optimize_prior_precision()
    probs = laplace.predict_proba(x_test)
    ```

    Reference:
        - [Daxberger et al., 2021](https://arxiv.org/abs/2106.14806)
        - [Kristiadi et al., 2020](https://arxiv.org/abs/2002.10118)
    """

    def __init__(
        self,
        model: keras.Model,
        likelihood: str,
        hessian: str = "full",
        *,
        prior_precision: float = 1.0,
        noise_scale: float = 1.0,
        layer: keras.layers.Layer | str | None = None,
    ) -> None:
        _validation.one_of("hessian", hessian, hessians.HESSIANS)
        view = functional.LastLayerView(model, layer)
        super().__init__(view, likelihood, prior_precision, noise_scale)
        self._hessian_class: Any = hessians.HESSIANS[hessian]

    def output_root(self, inputs: Any) -> tf.Tensor:
        """Computes roots `R` of the linearized outputs' covariances `R R^T`.

        Args:
            inputs: Inputs of the view, features of the last layer and a one,
                `[B, F + 1]`.

        Returns:
            root: float64, `[B, C, R]`.
        """
        return self.hessian.output_root(
            tf.cast(inputs, tf.float64), self.covariance.scale
        )

    def output_variance(self, inputs: Any) -> tf.Tensor:
        """Computes the variances of the linearized outputs.

        Args:
            inputs: As for `output_root`.

        Returns:
            variance: float64, `[B, C]`.
        """
        return self.hessian.output_variance(
            tf.cast(inputs, tf.float64), self.covariance.scale
        )

    def _numbers(self):
        view = self.view
        return self._hessian_class.numbers(view.num_outputs, view.num_features)

    def _terms(self, inputs, outputs, likelihood, weights, loc, fixed):
        size, kind = self.view.size, self._hessian_class
        if kind is hessians.FullHessian and size > _MAX_FULL:
            raise ValueError(
                f'`hessian="full"` needs matrices of {size} x {size} here: '
                'take "kron" or "diag".'
            )
        features = tf.cast(inputs, tf.float64)
        return kind.terms(features, outputs, likelihood, weights)
