"""Evidence of a model by Laplace's approximation, and its maximization.

The posterior has the precision `H + prior_precision I`, and `H` the eigenvalues
`l_i`, one for each of `D` weights: given these, all is cheap in the prior's
precision.

Reference:
    - [MacKay, 1992](https://doi.org/10.1162/neco.1992.4.3.448)
"""

import tensorflow as tf


def log_evidence(
    log_likelihood: tf.Tensor,
    squared_norm: tf.Tensor,
    eigenvalues: tf.Tensor,
    prior_precision: tf.Tensor,
) -> tf.Tensor:
    """Computes the log marginal likelihood, nats, from scalars and `l`, `[D]`.

    `log_likelihood` is that of all examples at the weights, and `squared_norm`
    their squared distance from the prior's mean. It is exact where the log
    likelihood is quadratic in the weights, and these are the posterior's mode.
    """
    # log det (H + delta I) - D log delta, without cancellation.
    log_ratio = tf.reduce_sum(tf.math.log1p(eigenvalues / prior_precision))
    return log_likelihood - 0.5 * (prior_precision * squared_norm + log_ratio)


def effective_number(
    eigenvalues: tf.Tensor, prior_precision: tf.Tensor
) -> tf.Tensor:
    """Computes the number of weights, of `D`, that the data determine.

    `sum_i l_i / (l_i + prior_precision)`, a scalar in `[0, D]`.
    """
    return tf.reduce_sum(eigenvalues / (eigenvalues + prior_precision))
