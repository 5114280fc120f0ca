"""Curvature of a loss in the weights of a linear map `f = Theta phi`.

With `B_n [C, C]` the Hessian of the loss of example `n` in its outputs, that
in the weights is `sum_n B_n kron phi_n phi_n^T`: exactly, as the map is linear.
The order of the weights is that of `Theta [C, P]`, row by row.

Reference:
    - [Daxberger et al., 2021](https://arxiv.org/abs/2106.14806)
"""

import tensorflow as tf


def full(features: tf.Tensor, output_hessian: tf.Tensor) -> tf.Tensor:
    """Computes the Hessian, `[C * P, C * P]`, from `[N, P]` and `[N, C, C]`."""
    size = output_hessian.shape[-1] * features.shape[-1]
    rows = [
        tf.matmul(
            features,
            tf.reshape(
                row[:, :, tf.newaxis] * features[:, tf.newaxis, :], [-1, size]
            ),
            transpose_a=True,
        )
        for row in tf.unstack(output_hessian, axis=1)
    ]
    return tf.concat(rows, axis=0)


def diagonal(features: tf.Tensor, output_hessian: tf.Tensor) -> tf.Tensor:
    """Computes the Hessian's diagonal, `[C, P]`, from that of `B`, `[N, C]`."""
    return tf.matmul(output_hessian, tf.square(features), transpose_a=True)


def gram(features: tf.Tensor) -> tf.Tensor:
    """Computes `sum_n phi_n phi_n^T`, `[P, P]`.

    In `sum_n B_n kron (1 / N) sum_n phi_n phi_n^T` it stands for the Hessian:
    the same if there is one example, or all have the same features or the same
    `B`, and an approximation otherwise.

    Reference:
        - [Ritter et al., 2018](https://openreview.net/forum?id=Skdvd2xAZ)
    """
    return tf.matmul(features, features, transpose_a=True)
