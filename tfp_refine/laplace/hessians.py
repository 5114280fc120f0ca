"""Hessians of the negative log likelihood, in a basis where each is diagonal.

With the standard deviations of the posterior along that basis, each knows the
Gaussian of the outputs `Theta phi` of a last layer. Sums over examples are for
a noise of 1.
"""

from typing import Any
from typing import ClassVar
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_refine.functional import likelihoods
from tfp_refine.math import gauss_newton
from tfp_refine.posteriors import covariances

# Eigenvalues below zero by rounding, relative to the greatest.
_ROUNDING = 1e-8
_NOT_FINITE = (
    "The {name} must be finite. It holds NaN or infinite numbers: the features "
    "are too large to be squared. Normalize the inputs of the last layer."
)


class Numbers(NamedTuple):
    """Numbers that an example of a last layer needs, by computation."""

    terms: int
    root: int
    variance: int


class FullHessian:
    """Any symmetric matrix.

    `eigenvalues [P]`, float64, are not negative; `vectors [P, P]` are
    orthogonal.
    """

    # Whose basis this is.
    _covariance: ClassVar[Any] = covariances.Full

    def __init__(self, eigenvalues, *vectors):
        self.eigenvalues, self.vectors = eigenvalues, vectors

    @staticmethod
    def terms(features, outputs, likelihood, weights):
        """Computes the terms to sum over examples, a tuple of tensors.

        Features are `phi [B, F]`, outputs `[B, C]`, weights of examples `[B]`
        or `None`, all float64.
        """
        hessian = likelihood.output_hessian(outputs)
        hessian = likelihoods.weighed(hessian, weights)
        return (gauss_newton.full(features, hessian),)

    @classmethod
    def from_sums(cls, sums, num_examples):
        """Makes a Hessian of the sums of `terms` over examples.

        Their number is the sum of their weights. Raises a `ValueError` unless
        it is finite and positive semi-definite.
        """
        del num_examples
        return cls(*_decompose("Hessian", sums[0]))

    @staticmethod
    def numbers(num_outputs, num_features):
        """Returns `Numbers` for `C` outputs and `F` features."""
        size = num_outputs * num_features
        return Numbers(
            size + num_outputs**2, num_outputs * size, num_outputs * size
        )

    def covariance(self, scale):
        """Returns the covariance with scales `[P]` along the basis."""
        return self._covariance(*self.vectors, scale)

    def output_root(self, features, scale):
        """Computes roots `R` of the outputs' covariances `R R^T`, `[B, C, R]`.

        Of features `[B, F]` and standard deviations along the basis, `[P]`.
        """
        scaled = self.vectors[0] * scale
        scaled = tf.reshape(scaled, [-1, features.shape[-1], len(scale)])
        return tf.einsum("bf,cfp->bcp", features, scaled)

    def output_variance(self, features, scale):
        """Computes the variances of the outputs, float64, `[B, C]`."""
        root = self.output_root(features, scale)
        return tf.reduce_sum(tf.square(root), axis=-1)

    def arrays(self):
        """Returns all that it consists of, a dict of arrays."""
        values = (self.eigenvalues, *self.vectors)
        return dict(zip(self._names(), values, strict=True))

    @classmethod
    def from_arrays(cls, arrays):
        """Restores a Hessian from the result of `arrays`."""
        return cls(*(arrays[name] for name in cls._names()))

    @classmethod
    def _names(cls):
        return "eigenvalues", *cls._covariance.names[:-1]


class KroneckerHessian(FullHessian):
    """The Kronecker product of a factor of outputs and one of features.

    The eigenvectors are orthogonal matrices, `[C, C]` and `[F, F]`.
    """

    _covariance = covariances.Kronecker

    @staticmethod
    def terms(features, outputs, likelihood, weights):
        roots = None if weights is None else tf.sqrt(weights)
        return (
            likelihood.output_hessian_sum(outputs, weights),
            gauss_newton.gram(likelihoods.weighed(features, roots)),
        )

    @classmethod
    def from_sums(cls, sums, num_examples):
        of_outputs, outputs = _decompose(
            "Hessian's factor of the outputs", sums[0]
        )
        of_features, features = _decompose(
            "Hessian's factor of the features", sums[1] / num_examples
        )
        eigenvalues = np.outer(of_outputs, of_features).reshape(-1)
        return cls(eigenvalues, outputs, features)

    @staticmethod
    def numbers(num_outputs, num_features):
        both = num_outputs + num_features
        return Numbers(both, num_outputs**2, both)

    def output_root(self, features, scale):
        along = tf.sqrt(self._variance_along(features, scale))
        return self.vectors[0] * along[:, tf.newaxis, :]

    def output_variance(self, features, scale):
        along = self._variance_along(features, scale)
        return tf.matmul(along, tf.square(self.vectors[0]), transpose_b=True)

    def _variance_along(self, features, scale):
        """Computes the variances along the basis of outputs, `[B, C]`."""
        variance = tf.reshape(tf.square(scale), list(map(len, self.vectors)))
        rotated = tf.matmul(features, self.vectors[1])
        return tf.matmul(tf.square(rotated), variance, transpose_b=True)


class DiagonalHessian(FullHessian):
    """The diagonal, for the whole; the basis is the weights themselves."""

    _covariance = covariances.Diagonal

    numbers = KroneckerHessian.numbers

    @staticmethod
    def terms(features, outputs, likelihood, weights):
        hessian = likelihood.output_hessian_diagonal(outputs)
        hessian = likelihoods.weighed(hessian, weights)
        return (gauss_newton.diagonal(features, hessian),)

    @classmethod
    def from_sums(cls, sums, num_examples):
        del num_examples
        return cls(_checked("Hessian's diagonal", np.ravel(sums[0])))

    def output_root(self, features, scale):
        return tf.linalg.diag(tf.sqrt(self.output_variance(features, scale)))

    def output_variance(self, features, scale):
        variance = tf.reshape(tf.square(scale), [-1, features.shape[-1]])
        return tf.matmul(tf.square(features), variance, transpose_b=True)


HESSIANS = {
    "full": FullHessian,
    "kron": KroneckerHessian,
    "diag": DiagonalHessian,
}


def _decompose(name, matrix):
    """Returns eigenvalues, none of them negative, and eigenvectors."""
    if not np.isfinite(matrix).all():
        raise ValueError(_NOT_FINITE.format(name=name))
    values, vectors = np.linalg.eigh(matrix)
    return _checked(name, values), vectors


def _checked(name, eigenvalues):
    if not np.isfinite(eigenvalues).all():
        raise ValueError(_NOT_FINITE.format(name=name))
    least, greatest = eigenvalues.min(), np.abs(eigenvalues).max()
    if least < -_ROUNDING * greatest:
        raise ValueError(
            f"The {name} must be positive semi-definite, as a sum over "
            f"examples is. Its eigenvalues are from {least:g} to {greatest:g}. "
            "Look for features of very different sizes: normalize the inputs "
            "of the last layer, or train with a weight decay."
        )
    return np.maximum(eigenvalues, 0.0)
