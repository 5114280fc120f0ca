"""Orthogonal bases in which the Hessian of the last layer is diagonal.

With the posterior's standard deviations along the basis vectors, each knows the
posterior: `theta = loc + U (scale * z)` for standard normal `z`, and the
Gaussian of the outputs `Theta phi` that this makes.
"""

import numpy as np
import tensorflow as tf

# Eigenvalues below zero by rounding, relative to the greatest.
_ROUNDING = 1e-8
_NOT_FINITE = (
    "The {name} must be finite. It holds NaN or infinite numbers: the features "
    "are too large to be squared. Normalize the inputs of the last layer."
)


class Dense:
    """Any basis, the columns of a matrix.

    Args:
        hessian: Symmetric float64 array, `[D, D]`.
        num_outputs: `C`.

    Attributes:
        eigenvalues: float64 array, `[D]`.
    """

    def __init__(self, hessian, num_outputs):
        values, self._vectors = _decompose("Hessian", hessian)
        self.eigenvalues = values
        self._num_outputs = num_outputs

    @classmethod
    def from_arrays(cls, arrays, num_outputs):
        """Restores what `arrays` returned."""
        basis = cls.__new__(cls)
        basis.eigenvalues = arrays["eigenvalues"]
        basis._vectors = arrays["vectors"]
        basis._num_outputs = num_outputs
        return basis

    def arrays(self):
        """Returns all that it consists of, a dict of arrays."""
        return {"eigenvalues": self.eigenvalues, "vectors": self._vectors}

    def matrix(self, values):
        """Returns the matrix with these eigenvalues, `[D, D]`."""
        return (self._vectors * values) @ self._vectors.T

    def rotation(self, dtype):
        """Returns the function `z -> U z`.

        Args:
            dtype: Of its argument.

        Returns:
            rotate: Function of a tensor `[..., D]`, to one.
        """
        vectors = tf.cast(self._vectors, dtype)
        return lambda z: tf.linalg.matvec(vectors, z)

    def output_root(self, features, scale):
        """Computes roots `R` of the outputs' covariances `R R^T`.

        Args:
            features: `phi`, float64, `[B, P]`.
            scale: Standard deviations along the basis, `[D]`.

        Returns:
            root: float64, `[B, C, D]`.
        """
        size = self._num_outputs
        scaled = tf.reshape(self._vectors * scale, [size, -1, len(scale)])
        return tf.einsum("bp,cpd->bcd", features, scaled)

    def output_variance(self, features, scale):
        """Computes the variances of the outputs, float64, `[B, C]`."""
        root = self.output_root(features, scale)
        return tf.reduce_sum(tf.square(root), axis=-1)


class Kronecker:
    """The Kronecker product of a basis of outputs and one of features.

    Args:
        output_factor: `[C, C]`, float64.
        feature_factor: `[P, P]`, float64; the Hessian is their product.

    Attributes:
        eigenvalues: float64 array, `[C * P]`.
    """

    def __init__(self, output_factor, feature_factor):
        of_outputs, self._outputs = _decompose(
            "Hessian's factor of the outputs", output_factor
        )
        of_features, self._features = _decompose(
            "Hessian's factor of the features", feature_factor
        )
        self.eigenvalues = np.outer(of_outputs, of_features).reshape(-1)

    @classmethod
    def from_arrays(cls, arrays, num_outputs):
        """Restores what `arrays` returned."""
        del num_outputs
        basis = cls.__new__(cls)
        basis.eigenvalues = arrays["eigenvalues"]
        basis._outputs, basis._features = arrays["outputs"], arrays["features"]
        return basis

    def arrays(self):
        """Returns all that it consists of, a dict of arrays."""
        return {
            "eigenvalues": self.eigenvalues,
            "outputs": self._outputs,
            "features": self._features,
        }

    def matrix(self, values):
        """Returns the matrix with these eigenvalues, `[D, D]`."""
        vectors = np.kron(self._outputs, self._features)
        return (vectors * values) @ vectors.T

    def rotation(self, dtype):
        """Returns the function `z -> U z`, as `Dense.rotation`."""
        outputs = tf.cast(self._outputs, dtype)
        features = tf.cast(self._features, dtype)
        sizes = [len(outputs), len(features)]

        def rotate(z):
            shape = tf.shape(z)
            grid = tf.reshape(z, tf.concat([shape[:-1], sizes], axis=0))
            theta = tf.matmul(
                outputs, tf.matmul(grid, features, transpose_b=True)
            )
            return tf.reshape(theta, shape)

        return rotate

    def output_root(self, features, scale):
        """Computes roots of the outputs' covariances, float64, `[B, C, C]`."""
        along = tf.sqrt(self._variance_along(features, scale))
        return self._outputs * along[:, tf.newaxis, :]

    def output_variance(self, features, scale):
        """Computes the variances of the outputs, float64, `[B, C]`."""
        return tf.matmul(
            self._variance_along(features, scale),
            tf.square(self._outputs),
            transpose_b=True,
        )

    def _variance_along(self, features, scale):
        """Computes the variances along the basis of outputs, `[B, C]`."""
        variance = tf.reshape(
            tf.square(scale), [len(self._outputs), len(self._features)]
        )
        rotated = tf.matmul(features, self._features)
        return tf.matmul(tf.square(rotated), variance, transpose_b=True)


class Identity:
    """The weights themselves: the Hessian's diagonal stands for it.

    Args:
        diagonal: float64 array, `[D]`.
        num_outputs: `C`.

    Attributes:
        eigenvalues: The diagonal.
    """

    def __init__(self, diagonal, num_outputs):
        self.eigenvalues = _checked("Hessian's diagonal", np.asarray(diagonal))
        self._num_outputs = num_outputs

    @classmethod
    def from_arrays(cls, arrays, num_outputs):
        """Restores what `arrays` returned."""
        return cls(arrays["eigenvalues"], num_outputs)

    def arrays(self):
        """Returns all that it consists of, a dict of arrays."""
        return {"eigenvalues": self.eigenvalues}

    def matrix(self, values):
        """Returns the matrix with these eigenvalues, `[D, D]`."""
        return np.diag(values)

    def rotation(self, dtype):
        """Returns the function `z -> z`."""
        del dtype
        return tf.identity

    def output_root(self, features, scale):
        """Computes roots of the outputs' covariances, float64, `[B, C, C]`."""
        return tf.linalg.diag(tf.sqrt(self.output_variance(features, scale)))

    def output_variance(self, features, scale):
        """Computes the variances of the outputs, float64, `[B, C]`."""
        variance = tf.reshape(tf.square(scale), [self._num_outputs, -1])
        return tf.matmul(tf.square(features), variance, transpose_b=True)


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
