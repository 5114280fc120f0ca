"""Covariances of Gaussians, as maps of standard normal draws to deviations.

Each is `A A^T` for a map `A` from `R` numbers to `P`.
"""

from typing import ClassVar

import numpy as np
import tensorflow as tf

from tfp_refine.math import kronecker


class _Covariance:
    # Its arrays, as the class takes them, the scale last but for `LowRank`.
    names: ClassVar[tuple[str, ...]] = ("scale",)

    def __init__(self, scale):
        self.scale = np.asarray(scale)

    @property
    def num_draws(self):
        """`R`, numbers that a draw takes."""
        return self.scale.shape[-1]

    def arrays(self):
        """Returns all that it consists of, a dict of arrays."""
        return {name: getattr(self, name) for name in self.names}


class Diagonal(_Covariance):
    """Independent weights, with standard deviations `scale [P]`.

    Subclasses have these scales along another orthogonal basis.
    """

    @property
    def log_det(self):
        """Half the log determinant of the covariance, nats, float."""
        return float(np.sum(np.log(np.asarray(self.scale, np.float64))))

    @property
    def factors(self):
        """Matrices whose Kronecker product is the basis, perhaps none."""
        return [getattr(self, name) for name in self.names[:-1]]

    def deviation(self, z):
        """Maps standard normal draws `[..., R]` to deviations `[..., P]`."""
        return kronecker.multiply(
            self.factors, tf.cast(self.scale, z.dtype) * z
        )

    def standardize(self, deviation):
        """Inverts `deviation`."""
        rotated = kronecker.multiply(self.factors, deviation, transpose=True)
        return rotated / tf.cast(self.scale, deviation.dtype)

    def matrix(self, power=2):
        """Returns the covariance, `[P, P]`; its inverse if `power` is -2."""
        return np.diag(self.scale**power)

    def variances(self):
        """Returns the diagonal of the covariance, `[P]`."""
        return np.square(self.scale)


class Full(Diagonal):
    """Covariance along the columns of an orthogonal matrix, `[P, P]`."""

    names = ("vectors", "scale")

    def __init__(self, vectors, scale):
        super().__init__(scale)
        self.vectors = np.asarray(vectors)

    def matrix(self, power=2):
        return (self.vectors * self.scale**power) @ self.vectors.T

    def variances(self):
        return np.square(self.vectors) @ np.square(self.scale)


class Kronecker(Diagonal):
    """Covariance along the Kronecker product of two orthogonal matrices.

    They are of the outputs, `[C, C]`, and of the features, `[F, F]`; the scales
    are `[C * F]`.
    """

    names = ("outputs", "features", "scale")

    def __init__(self, outputs, features, scale):
        super().__init__(scale)
        self.outputs, self.features = np.asarray(outputs), np.asarray(features)

    def matrix(self, power=2):
        vectors = np.kron(self.outputs, self.features)
        return Full(vectors, self.scale).matrix(power)

    def variances(self):
        outputs, features = np.square(self.outputs), np.square(self.features)
        grid = np.square(self.scale).reshape(len(outputs), len(features))
        return np.ravel(outputs @ grid @ features.T)


class LowRank(_Covariance):
    """The covariance `diag(scale**2) + factor^T factor`.

    `scale` is `[P]` and `factor [K, P]`; a draw takes `P + K` numbers.
    """

    names = ("scale", "factor")

    def __init__(self, scale, factor):
        super().__init__(scale)
        self.factor = np.asarray(factor)

    @property
    def num_draws(self):
        return self.scale.shape[-1] + len(self.factor)

    @property
    def log_det(self):
        """Half the log determinant of the covariance, nats, float."""
        whitened = np.asarray(self.factor / self.scale, np.float64)
        inner = np.eye(len(whitened)) + whitened @ whitened.T
        return float(
            np.sum(np.log(np.asarray(self.scale, np.float64)))
            + 0.5 * np.linalg.slogdet(inner)[1]
        )

    def deviation(self, z):
        size = self.scale.shape[-1]
        return tf.cast(self.scale, z.dtype) * z[..., :size] + tf.linalg.matmul(
            z[..., size:], tf.cast(self.factor, z.dtype)
        )

    def matrix(self, power=2):
        matrix = np.diag(self.scale**2) + self.factor.T @ self.factor
        return matrix if power == 2 else np.linalg.inv(matrix)

    def variances(self):
        return self.scale**2 + np.sum(np.square(self.factor), axis=0)


KINDS = {kind.__name__: kind for kind in (Diagonal, Full, Kronecker, LowRank)}


def from_arrays(name, arrays):
    """Restores a covariance from its arrays and the name of its class."""
    kind = KINDS[name]
    return kind(*(arrays[key] for key in kind.names))
