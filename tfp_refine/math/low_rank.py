"""Gaussians whose covariance is a diagonal plus one of low rank.

`w = loc + scale * e + K**-0.5 sum_k z_k factor_k`, with `e` and the `K` numbers
`z_k` independent and standard normal.

References:
    - [Mishkin et al., 2018](https://arxiv.org/abs/1811.04504)
    - [Tomczak et al., 2020](https://papers.nips.cc/paper/2020/hash/310cc7ca5a76a446f85c1a0d641ba96d-Abstract.html)
"""

import tensorflow as tf


def marginal_scale(scale: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Computes each coordinate's standard deviation, `[...]`."""
    return tf.sqrt(tf.square(scale) + tf.reduce_mean(tf.square(factor), axis=0))


def total_correlation(scale: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Computes the divergence from the product of the marginals, nats.

    For any prior of independent coordinates, the divergence from it is this
    plus that of the marginals: so priors need no correlations.
    """
    rank = factor.shape[0]
    # Where factors depend on each other, float32 would lose the identity below.
    ratio = tf.cast(tf.reshape(factor / scale, [rank, -1]), tf.float64)
    ratio /= rank**0.5
    # Covariance `diag(scale) (I + ratio^T ratio) diag(scale)`; the determinant
    # of the middle is that of `I + ratio ratio^T`, which is K by K.
    gram = tf.matmul(ratio, ratio, transpose_b=True)
    root = tf.linalg.cholesky(gram + tf.eye(rank, dtype=gram.dtype))
    log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(root)))
    marginal = tf.reduce_sum(
        tf.math.log1p(tf.reduce_sum(tf.square(ratio), axis=0))
    )
    return tf.cast(0.5 * (marginal - log_det), scale.dtype)
