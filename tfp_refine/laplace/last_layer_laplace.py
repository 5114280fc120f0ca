"""Laplace's approximation of the last layer."""

import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import posteriors
from tfp_refine.laplace import bases
from tfp_refine.laplace import laplace
from tfp_refine.math import gauss_newton

_BASES = {
    "full": bases.Dense,
    "kron": bases.Kronecker,
    "diag": bases.Identity,
}
# Numbers of which blocks are made: 64 MiB of float64.
_MAX_NUMBERS = 2**23
# Weights that the full Hessian has room for: two matrices of 3 GiB.
_MAX_FULL = 20000


class LastLayerLaplace(laplace.Laplace):
    """Gaussian posterior of the last layer of any trained Keras model.

    The model is called once on the training data; all else happens on the
    features before its last layer. The posterior is that of a generalized
    linear model: its mean are the trained weights, its precision the exact
    Hessian of the negative log likelihood (or an approximation of it) plus the
    prior's precision.

    Weights are in the order of `Theta [C, P + 1]`, row by row: those of an
    output, then its bias (if the layer has one).

    Args:
        model: Built `keras.Model`, functional, Sequential or subclassed, whose
            last layer with weights is a `keras.layers.Dense`. It may return
            logits or, after a softmax (or a sigmoid, for one output),
            probabilities. It is not changed, and must not be trained on.
        likelihood: "classification" or "regression".
        hessian: "full"; "kron", the Kronecker product of a factor of the
            outputs and one of the features, for thousands of classes; or
            "diag".
        prior_precision: 1 / variance of the prior of each weight, which has
            the mean 0. Defaults to `1.0`; see `optimize_prior_precision`.
        noise_scale: Standard deviation of the noise, for "regression".
        layer: The last layer, or its name; found if `None`.

    Raises:
        ValueError: If an argument is invalid, or the model's last layer with
            weights is no Dense layer.

    Example:

    ```python
    laplace = tfp_refine.laplace.LastLayerLaplace(model, "classification")
    laplace.fit(x_train, y_train)
    laplace.optimize_prior_precision()
    probs = laplace.predict(x_test).mean(axis=0)
    ```

    Reference:
        - [Daxberger et al., 2021](https://arxiv.org/abs/2106.14806)
        - [Kristiadi et al., 2020](https://arxiv.org/abs/2002.10118)
    """

    def __init__(
        self,
        model,
        likelihood,
        hessian="full",
        *,
        prior_precision=1.0,
        noise_scale=1.0,
        layer=None,
    ):
        _validation.one_of("hessian", hessian, _BASES)
        network = posteriors.LastLayer(model, layer)
        super().__init__(network, likelihood, prior_precision, noise_scale)
        self.hessian = hessian

    def output_root(self, inputs):
        """Computes roots of the outputs' covariances, as `Laplace` says."""
        return self._basis.output_root(tf.cast(inputs, tf.float64), self.scale)

    def output_variance(self, inputs):
        """Computes the variances of the outputs, as `Laplace` says."""
        return self._basis.output_variance(
            tf.cast(inputs, tf.float64), self.scale
        )

    def numbers_of_root(self):
        """Returns how many numbers an example needs in `output_root`."""
        size = self.network.num_outputs
        return size * (self.network.size if self.hessian == "full" else size)

    def numbers_of_variance(self):
        """Returns how many numbers an example needs in `output_variance`."""
        size = self.network.size
        if self.hessian == "full":
            return self.network.num_outputs * size
        return self.network.num_outputs + self.network.num_features

    def _options(self):
        return {"hessian": self.hessian}

    def _basis_class(self):
        return _BASES[self.hessian]

    def _curvature(self, inputs, targets, mean):
        network, likelihood = self.network, self._unit_likelihood()
        size = network.size
        if self.hessian == "full" and size > _MAX_FULL:
            raise ValueError(
                f'`hessian="full"` needs matrices of {size} x {size} here: '
                'take "kron" or "diag".'
            )
        sums = [0.0, 0.0]
        statistic = 0.0
        theta = tf.constant(mean)
        rows = max(1, _MAX_NUMBERS // self._numbers_of_curvature())
        for begin in range(0, len(inputs), rows):
            block = slice(begin, begin + rows)
            features = tf.cast(inputs[block], tf.float64)
            outputs = network.outputs(theta, features)
            statistic += likelihood.statistic(targets[block], outputs)
            if self.hessian == "full":
                sums[0] += gauss_newton.full(
                    features, likelihood.output_hessian(outputs)
                )
            elif self.hessian == "diag":
                sums[0] += gauss_newton.diagonal(
                    features, likelihood.output_hessian_diagonal(outputs)
                )
            else:
                sums[0] += likelihood.output_hessian_sum(outputs)
                sums[1] += gauss_newton.gram(features)
        sums = [np.asarray(one) for one in sums]
        if self.hessian == "kron":
            return bases.Kronecker(sums[0], sums[1] / len(inputs)), statistic
        if self.hessian == "diag":
            basis = bases.Identity(np.ravel(sums[0]), network.num_outputs)
            return basis, statistic
        return bases.Dense(sums[0], network.num_outputs), statistic

    def _numbers_of_curvature(self):
        """Returns how many numbers an example needs for the Hessian."""
        outputs = self.network.num_outputs
        if self.hessian == "full":
            return self.network.size + outputs**2
        return self.network.num_features + outputs
