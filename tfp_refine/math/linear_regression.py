"""Bayesian linear regression of many outputs.

For each output `y = x w + e`, with the prior `w ~ N(0, diag(prior_variance))`
and independent `e[n] ~ N(0, noise_variance[n])`. The posterior of `w` is
Gaussian, with

    precision = x^T diag(1 / noise_variance) x + diag(1 / prior_variance)
    mean = precision^-1 x^T (y / noise_variance)

In units of the prior's and the noise's standard deviations it is the `D` by `D`
matrix `I + x^T x` that is inverted, or in its dual form the `N` by `N` matrix
`I + x x^T`, which has the same determinant. No eigenvalue is less than 1,
whatever the columns of `x`: they may be equal, constant or zero.

Reference:
    - [Rossi et al., 2019](https://arxiv.org/abs/1810.08083), Sec. 3
"""

import math
from typing import NamedTuple

import tensorflow as tf

# How many numbers the largest matrices of a block hold together: 128 MiB.
_BLOCK_NUMBERS = 2**24


class Posterior(NamedTuple):
    """Posterior of the weights, Gaussian and independent between outputs.

    Attributes:
        mean: `[D, M]`.
        precision: Diagonals of the precision matrices, `[D, M]`.
        covariance: Diagonals of the covariance matrices, `[D, M]`; `None` if
            not asked for. No less than `1 / precision`.
        log_evidence: Log density of each output given `x`, with the weights
            integrated out, nats, `[M]`.
    """

    mean: tf.Tensor
    precision: tf.Tensor
    covariance: tf.Tensor | None
    log_evidence: tf.Tensor


def fit(
    x: tf.Tensor,
    y: tf.Tensor,
    noise_variance: tf.Tensor | float,
    prior_variance: tf.Tensor | float,
    *,
    covariance: bool = False,
    dual: bool | None = None,
    block_size: int | None = None,
) -> Posterior:
    """Computes the posterior, of the dtype of `x`.

    `x` is `[N, D]`, or other inputs for each output, `[M, N, D]`, of static
    shape; a column of ones has a bias as its weight. `y` is `[N, M]`. Variances
    are positive: `noise_variance` is broadcastable to `[N, M]`, and the same
    for all outputs if its last axis is absent or of size 1; `prior_variance` is
    a scalar or `[D]`. With `covariance`, which nothing else needs, the Cholesky
    factor is inverted too.

    Outputs of the same `x` and the same noise share one Cholesky decomposition,
    of an `[N, N]` matrix if `dual`, else `[D, D]`; by default of the smaller.
    Others have one each, and are solved `block_size` at a time: by default as
    many as have together `2**24` numbers (128 MiB) in a matrix and, unless the
    dual form can do without, in the weighted inputs of each; or 1. The peak is
    two or three times that.

    Computes in float64 whatever the dtype of `x`. Relative errors are those of
    rounding times the condition number of `I + x^T x`, which with equal columns
    is its greatest eigenvalue: up to about `N D prior_variance /
    noise_variance` for features near 1. At 3e6, float32 would be off by 1%; at
    3e8, by more than the mean itself.
    """
    x = tf.convert_to_tensor(x)
    y, noise, prior = map(_double, (y, noise_variance, prior_variance))
    num, size = x.shape[-2:]
    if dual is None:
        dual = num < size

    # `G` matrices, each of `R` outputs: one of all, or one for each output.
    same_x = x.shape.rank == 2
    if same_x and noise.shape[-1:] in ([], [1]):
        y = y[tf.newaxis]
        noise = tf.broadcast_to(noise, [num, 1])
    else:
        noise = tf.broadcast_to(noise, y.shape)
        y = tf.transpose(y)[..., tf.newaxis]
    noise = tf.transpose(noise)

    def solve(indices):
        return _solve(
            x[tf.newaxis] if same_x else tf.gather(x, indices),
            tf.gather(y, indices),
            tf.gather(noise, indices),
            prior,
            covariance,
            dual,
        )

    if block_size is None:
        numbers = num**2 if dual else size**2
        if covariance or not (same_x and dual):
            numbers += num * size
        block_size = max(_BLOCK_NUMBERS // max(numbers, 1), 1)
    log_evidence, *rest = _map_blocks(
        solve, y.shape[0], block_size, 4 if covariance else 3
    )
    mean, precision, *rest = (
        tf.cast(tf.reshape(tf.transpose(part, [1, 0, 2]), [size, -1]), x.dtype)
        for part in rest
    )
    return Posterior(
        mean,
        precision,
        rest[0] if covariance else None,
        tf.cast(tf.reshape(log_evidence, [-1]), x.dtype),
    )


def factorized_variance(
    posterior: Posterior, divergence: str = "reverse"
) -> tf.Tensor:
    """Computes the variances `[D, M]` of the closest independent Gaussian `q`.

    Its mean is that of the posterior `p`, whichever the divergence: `"reverse"`
    is `KL(q || p)`, as in variational inference; `"forward"` is `KL(p || q)`,
    where `q` has the variances of `p`, which are greater, and which needs
    `posterior.covariance`.
    """
    variances = {
        "reverse": 1.0 / posterior.precision,
        "forward": posterior.covariance,
    }
    return variances[divergence]


def _double(value):
    # The hint keeps Python's numbers from being rounded to float32 first.
    value = tf.convert_to_tensor(value, dtype_hint=tf.float64)
    return tf.cast(value, tf.float64)


def _map_blocks(function, num, size, num_results):
    """Computes a function of the indices `0, ..., num - 1`, in blocks.

    `function` maps indices `[B]`, `B <= size`, to a list of `num_results`
    float64 tensors `[B, ...]`. Returns tensors `[num, ...]`.
    """
    blocks = -(-num // size)
    if blocks == 1:
        return function(tf.range(num))
    # Blocks of one size; the last index is repeated to fill them.
    size = -(-num // blocks)
    indices = tf.minimum(tf.range(blocks * size), num - 1)
    results = tf.map_fn(
        function,
        tf.reshape(indices, [blocks, size]),
        parallel_iterations=1,  # No two blocks are in memory at a time.
        fn_output_signature=[tf.float64] * num_results,
    )
    return [
        tf.reshape(result, [-1, *result.shape[2:]])[:num] for result in results
    ]


def _solve(x, y, noise, prior, covariance, dual):
    """Solves `G` regressions of `R` outputs each.

    `x` is `[G, N, D]` or `[1, N, D]`, `y` is `[G, N, R]`; variances are `[G,
    N]` (noise) and scalar or `[D]` (prior). Returns the log evidence, `[G, R]`,
    then mean, precision and, if asked for, covariance, `[G, D, R]` each.
    """
    # Units of the standard deviations of prior and noise: `y = f v + e`, where
    # `v` and `e` are standard normal and `f` is `weight * f` below. The product
    # is `G` times as large as `f` if all outputs have the same `x`, so that it
    # is formed only where it must be.
    f = tf.cast(x, tf.float64) * tf.sqrt(prior)
    weight = tf.math.rsqrt(noise)[..., tf.newaxis]  # [G, N, 1]
    y *= weight
    if dual:
        gram = tf.matmul(f, f, transpose_b=True)
        gram *= weight * tf.linalg.matrix_transpose(weight)
        root = _cholesky_of_one_plus(gram)
        residual = tf.linalg.cholesky_solve(root, y)
        v = tf.matmul(f, weight * residual, transpose_a=True)
    else:
        rows = weight * f
        root = _cholesky_of_one_plus(tf.matmul(rows, rows, transpose_a=True))
        v = tf.linalg.cholesky_solve(root, tf.matmul(rows, y, transpose_a=True))
        residual = y - tf.matmul(rows, v)
    # `y^T (I + f f^T)^-1 y`, as a sum of squares: its terms do not cancel.
    squares = tf.reduce_sum(residual**2, axis=-2) + tf.reduce_sum(v**2, axis=-2)
    log_det = tf.reduce_sum(tf.math.log(noise), axis=-1)
    log_det += 2.0 * tf.reduce_sum(
        tf.math.log(tf.linalg.diag_part(root)), axis=-1
    )
    constant = noise.shape[-1] * math.log(2.0 * math.pi)
    log_evidence = -0.5 * (constant + log_det[..., tf.newaxis] + squares)

    prior = prior[..., tf.newaxis]  # [1] or [D, 1]
    precision = 1.0 + tf.matmul(f**2, weight**2, transpose_a=True)
    precision = tf.broadcast_to(precision / prior, v.shape)
    results = [log_evidence, tf.sqrt(prior) * v, precision]
    if covariance:
        if dual:
            half = tf.linalg.triangular_solve(root, weight * f)
            diagonal = 1.0 - tf.reduce_sum(half**2, axis=-2)
        else:
            half = tf.linalg.triangular_solve(
                root, tf.eye(f.shape[-1], dtype=f.dtype)
            )
            diagonal = tf.reduce_sum(half**2, axis=-2)
        diagonal = tf.broadcast_to(prior * diagonal[..., tf.newaxis], v.shape)
        # The least that it can be, where the difference of the dual is rounded.
        results.append(tf.maximum(diagonal, 1.0 / precision))
    return results


def _cholesky_of_one_plus(matrix):
    diagonal = 1.0 + tf.linalg.diag_part(matrix)
    return tf.linalg.cholesky(tf.linalg.set_diag(matrix, diagonal))
