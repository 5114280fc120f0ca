"""Class probabilities of logits that are Gaussian, in closed form.

All of these are approximations: the integral of a softmax over a Gaussian has
no closed form. They are exact where the variance is 0.
"""

import math

import tensorflow as tf

_PI_8 = math.pi / 8.0


def probit(mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Approximates `E[sigmoid(f)]`, with an error below 0.017.

    Args:
        mean: Of the logit `f`, `[...]`.
        variance: Of it, `[...]`.

    Returns:
        logit: Of the probability, `[...]`.

    Reference:
        - [MacKay, 1992](https://doi.org/10.1162/neco.1992.4.5.720)
    """
    return mean / tf.sqrt(1.0 + _PI_8 * variance)


def multiclass_probit(mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Approximates `E[softmax(f)]`; covariances are left out.

    With two classes it is not `probit` of the difference of the logits.

    Args:
        mean: Of the logits `f`, `[..., C]`.
        variance: Of each, `[..., C]`.

    Returns:
        log_probs: `[..., C]`.

    Reference:
        - [Gibbs, 1998](https://www.inference.org.uk/mackay/BayesGP.html)
    """
    return tf.nn.log_softmax(probit(mean, variance))


def mean_field(mean: tf.Tensor, covariance: tf.Tensor) -> tf.Tensor:
    """Approximates `E[softmax(f)]`, from `probit` of each pair of classes.

    The second-order mean-field approximation, normalized. With two classes it
    is `probit` of the difference of the logits.

    Args:
        mean: Of the logits `f`, `[..., C]`.
        covariance: Of them, `[..., C, C]`.

    Returns:
        log_probs: `[..., C]`.

    Reference:
        - [Lu et al., 2020](https://arxiv.org/abs/2006.07584)
    """
    variance = tf.linalg.diag_part(covariance)
    of_difference = (
        variance[..., :, tf.newaxis]
        + variance[..., tf.newaxis, :]
        - 2.0 * covariance
    )
    difference = mean[..., :, tf.newaxis] - mean[..., tf.newaxis, :]
    # Rounding may leave a variance of -1e-16 between equal logits.
    odds = probit(difference, tf.maximum(of_difference, 0.0))
    return tf.nn.log_softmax(-tf.reduce_logsumexp(-odds, axis=-1))
