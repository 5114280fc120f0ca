"""Covariances of Gaussians, as maps of standard normal draws to deviations.

Each is `A A^T` for a map `A` from `R` numbers to `P`.
"""

from typing import ClassVar

import numpy as np
import tensorflow as tf


class _Covariance:
    # Its arrays, as the class takes them.
    _names: ClassVar[tuple[str, ...]] = ()

    @property
    def num_draws(self):
        """`R`, numbers that a draw takes."""
        return self.scale.shape[-1]

    def arrays(self):
        """Returns all that it consists of, a dict of arrays."""
        return {name: getattr(self, name) for name in self._names}


class Diagonal(_Covariance):
    """Independent weights.

    Args:
        scale: Standard deviations, `[P]`.
    """

    _names = ("scale",)

    def __init__(self, scale):
        self.scale = np.asarray(scale)

    @property
    def log_det(self):
        """Log determinant of the map, nats, float."""
        return float(np.sum(np.log(self.scale)))

    def deviation(self, z):
        """Maps standard normal draws to deviations from the mean.

        Args:
            z: Tensor, `[..., R]`.

        Returns:
            deviation: `[..., P]`.
        """
        return tf.cast(self.scale, z.dtype) * z

    def standardize(self, deviation):
        """Maps deviations back to what `deviation` took, likewise."""
        return deviation / tf.cast(self.scale, deviation.dtype)

    def matrix(self, power=2):
        """Returns the covariance, `[P, P]`; its inverse if `power` is -2."""
        return np.diag(self.scale**power)

    def variances(self):
        """Returns the diagonal of the covariance, `[P]`."""
        return np.square(self.scale)


class Full(_Covariance):
    """Covariance with a scale along each of some orthogonal vectors.

    Args:
        vectors: Orthogonal matrix, `[P, P]`, vectors as columns.
        scale: Standard deviations along them, `[P]`.
    """

    _names = ("vectors", "scale")

    def __init__(self, vectors, scale):
        self.vectors, self.scale = np.asarray(vectors), np.asarray(scale)

    log_det = Diagonal.log_det

    def deviation(self, z):
        """Maps standard normal draws to deviations, as `Diagonal`."""
        scale = tf.cast(self.scale, z.dtype)
        return tf.linalg.matvec(tf.cast(self.vectors, z.dtype), scale * z)

    def standardize(self, deviation):
        """Maps deviations back, as `Diagonal`."""
        vectors = tf.cast(self.vectors, deviation.dtype)
        rotated = tf.linalg.matvec(vectors, deviation, transpose_a=True)
        return rotated / tf.cast(self.scale, deviation.dtype)

    def matrix(self, power=2):
        """Returns the covariance, as `Diagonal`."""
        return (self.vectors * self.scale**power) @ self.vectors.T

    def variances(self):
        """Returns the diagonal of the covariance, `[P]`."""
        return np.square(self.vectors) @ np.square(self.scale)


class Kronecker(_Covariance):
    """Covariance along the Kronecker product of two sets of vectors.

    Args:
        outputs: Orthogonal matrix of the outputs, `[C, C]`.
        features: Orthogonal matrix of the features, `[F, F]`.
        scale: Standard deviations along the products, `[C * F]`.
    """

    _names = ("outputs", "features", "scale")

    def __init__(self, outputs, features, scale):
        self.outputs, self.features = np.asarray(outputs), np.asarray(features)
        self.scale = np.asarray(scale)

    log_det = Diagonal.log_det

    def deviation(self, z):
        """Maps standard normal draws to deviations, as `Diagonal`."""
        outputs = tf.cast(self.outputs, z.dtype)
        features = tf.cast(self.features, z.dtype)
        return _rotate(outputs, features, tf.cast(self.scale, z.dtype) * z)

    def standardize(self, deviation):
        """Maps deviations back, as `Diagonal`."""
        outputs = tf.cast(self.outputs, deviation.dtype)
        features = tf.cast(self.features, deviation.dtype)
        rotated = _rotate(
            tf.transpose(outputs), tf.transpose(features), deviation
        )
        return rotated / tf.cast(self.scale, deviation.dtype)

    def matrix(self, power=2):
        """Returns the covariance, as `Diagonal`."""
        vectors = np.kron(self.outputs, self.features)
        return (vectors * self.scale**power) @ vectors.T

    def variances(self):
        """Returns the diagonal of the covariance, `[P]`."""
        grid = np.square(self.scale).reshape(
            len(self.outputs), len(self.features)
        )
        return np.ravel(
            np.square(self.outputs) @ grid @ np.square(self.features).T
        )


def _rotate(outputs, features, vector):
    """Multiplies the Kronecker product of two matrices and vectors."""
    shape = tf.shape(vector)
    grid = tf.reshape(
        vector,
        tf.concat([shape[:-1], [len(outputs), len(features)]], axis=0),
    )
    product = tf.matmul(outputs, tf.matmul(grid, features, transpose_b=True))
    return tf.reshape(product, shape)


class LowRank(_Covariance):
    """A diagonal covariance plus one of low rank.

    Args:
        scale: Standard deviations of the independent parts, `[P]`.
        factor: `[K, P]`: the covariance is `diag(scale**2) + factor^T factor`.
    """

    _names = ("scale", "factor")

    def __init__(self, scale, factor):
        self.scale, self.factor = np.asarray(scale), np.asarray(factor)

    @property
    def num_draws(self):
        """`R`, numbers that a draw takes: `P + K`."""
        return self.scale.shape[-1] + len(self.factor)

    def deviation(self, z):
        """Maps standard normal draws to deviations, as `Diagonal`."""
        size = self.scale.shape[-1]
        return tf.cast(self.scale, z.dtype) * z[..., :size] + tf.linalg.matmul(
            z[..., size:], tf.cast(self.factor, z.dtype)
        )

    def matrix(self, power=2):
        """Returns the covariance, as `Diagonal`."""
        matrix = np.diag(self.scale**2) + self.factor.T @ self.factor
        return matrix if power == 2 else np.linalg.inv(matrix)

    def variances(self):
        """Returns the diagonal of the covariance, `[P]`."""
        return self.scale**2 + np.sum(np.square(self.factor), axis=0)


KINDS = {kind.__name__: kind for kind in (Diagonal, Full, Kronecker, LowRank)}


def from_arrays(name, arrays):
    """Restores what `arrays` returned, given the name of the class."""
    kind = KINDS[name]
    return kind(*(arrays[key] for key in kind._names))
