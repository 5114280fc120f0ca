"""Class labels as Gaussian targets of a regression.

Given its label, the class probabilities of an example have a Dirichlet
posterior: they are independent Gamma variables, divided by their sum. The
logarithms of those are logits, and nearly Gaussian.

Reference:
    - [Milios et al., 2018](https://arxiv.org/abs/1805.10915), Sec. 4
"""

from typing import NamedTuple

import tensorflow as tf


class GaussianTargets(NamedTuple):
    """Targets of the logits, `[..., C]`, and their noise's variances."""

    loc: tf.Tensor
    variance: tf.Tensor


def gaussian_targets(
    labels: tf.Tensor, concentration: tf.Tensor | float = 0.01
) -> GaussianTargets:
    """Turns one-hot labels or probabilities `[..., C]` into targets of logits.

    The exponential of `N(loc, variance)` has the mean and the variance of a
    Gamma variable of shape `labels + concentration` and rate 1. The smaller the
    concentration of the Dirichlet prior, the further apart are the targets of 0
    and 1, and the noisier those of 0.
    """
    shape = labels + concentration
    variance = tf.math.log1p(1.0 / shape)
    return GaussianTargets(tf.math.log(shape) - 0.5 * variance, variance)


def center(targets: GaussianTargets) -> GaussianTargets:
    """Subtracts one constant from the targets of all classes and examples.

    A softmax of the logits does not see it. A prior of mean zero does: targets
    of few classes are about -6 in the mean. The constant is their mean
    weighted by the precisions, which a regression on nothing else would find.
    """
    precision = 1.0 / targets.variance
    mean = tf.reduce_sum(precision * targets.loc) / tf.reduce_sum(precision)
    return targets._replace(loc=targets.loc - mean)
