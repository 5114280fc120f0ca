"""Class probabilities of logits that are Gaussian, in closed form.

All of these are approximations: the integral of a softmax over a Gaussian has
no closed form. They are exact where the variance is 0.
"""

import math

import tensorflow as tf

_PI_8 = math.pi / 8.0


def probit(mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Approximates `E[sigmoid(f)]` by its logit, with an error below 0.017.

    Reference:
        - [MacKay, 1992](https://doi.org/10.1162/neco.1992.4.5.720)
    """
    return mean / tf.sqrt(1.0 + _PI_8 * variance)


def multiclass_probit(mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Approximates `log E[softmax(f)]`, `[..., C]`, from variances `[..., C]`.

    With two classes it is not `probit` of the difference of the logits.

    Reference:
        - [Gibbs, 1998](https://www.inference.org.uk/mackay/BayesGP.html)
    """
    return tf.nn.log_softmax(probit(mean, variance))


def mean_field(mean: tf.Tensor, covariance: tf.Tensor) -> tf.Tensor:
    """Approximates `log E[softmax(f)]`, from `probit` of each pair of classes.

    The second-order mean-field approximation, normalized, of the mean `[...,
    C]` and covariance `[..., C, C]`. With two classes it is `probit` of the
    difference of the logits.

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
