"""Products of vectors with Kronecker products of matrices."""

from collections.abc import Sequence

import tensorflow as tf


def multiply(
    factors: Sequence[tf.Tensor], vectors: tf.Tensor, transpose: bool = False
) -> tf.Tensor:
    """Multiplies vectors by the Kronecker product of some matrices.

    Args:
        factors: None, one or two matrices, `[C, C]` and `[F, F]`; the product
            of none is the identity.
        vectors: `[..., P]`, `P = C * F`.
        transpose: Whether matrices are transposed.

    Returns:
        product: `[..., P]`.
    """
    factors = [tf.cast(factor, vectors.dtype) for factor in factors]
    if not factors:
        return vectors
    if len(factors) == 1:
        return tf.linalg.matvec(factors[0], vectors, transpose_a=transpose)
    left, right = factors
    shape = tf.shape(vectors)
    sizes = [left.shape[-1], right.shape[-1]]
    grid = tf.reshape(vectors, tf.concat([shape[:-1], sizes], axis=0))
    product = tf.matmul(grid, right, transpose_b=not transpose)
    return tf.reshape(tf.matmul(left, product, transpose_a=transpose), shape)
