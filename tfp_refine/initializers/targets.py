"""Targets of the regressions of layers, with Gaussian noise."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_refine.initializers import labels
from tfp_refine.math import dirichlet


class Targets(NamedTuple):
    """Targets, `[N, T]`, and their noise variance, `[N, T]` or `[N, 1]`."""

    loc: np.ndarray
    variance: np.ndarray

    def centered(self):
        """Returns them without the mean of each column, as precise as it is."""
        precision = np.broadcast_to(1.0 / self.variance, self.loc.shape)
        mean = np.average(self.loc, axis=0, weights=precision)
        return self._replace(loc=self.loc - mean)


class LayerTargets(NamedTuple):
    """Targets of hidden units, one of them each, and of the model's outputs."""

    hidden: Targets
    output: Targets

    def of_outputs(self, made):
        """Returns the targets of a layer that makes some outputs (`Made`)."""
        variance = self.output.variance
        if variance.shape[-1] > 1:
            variance = variance[:, made.columns]
        return Targets(self.output.loc[:, made.columns] / made.parts, variance)


# In each of these, the noise variance of an example is divided by its weight,
# `weights` being `[N, 1]`, positive: its likelihood counts as often as that.


def of_classes(y, weights, num_outputs, concentration, center):
    """Makes targets of the labels, `[N, 1]` or `[N, C]`, of exclusive classes.

    With `center`, hidden layers have centered targets, and all logits the same
    constant less. `concentration` is that of `math.dirichlet.gaussian_targets`.
    """
    one_hot = labels.one_hot(y, num_outputs)
    if num_outputs == 1:
        return of_yes_or_no(one_hot[:, 1:], weights, concentration, center)
    targets = dirichlet.gaussian_targets(tf.constant(one_hot), concentration)
    targets = targets._replace(variance=targets.variance / weights)
    if center:
        targets = dirichlet.center(targets)
    return _of_logits(*targets, center)


def of_yes_or_no(y, weights, concentration, center):
    """Makes logits of 1 against 0 from labels `[N, D]`, not exclusive."""
    both = tf.stack([1.0 - y, y], axis=-1)
    loc, variance = dirichlet.gaussian_targets(both, concentration)
    return _of_logits(
        loc[..., 1] - loc[..., 0],
        tf.reduce_sum(variance, axis=-1) / weights,
        center,
    )


def _of_logits(loc, variance, center):
    output = Targets(loc.numpy(), variance.numpy())
    return LayerTargets(output.centered() if center else output, output)


def of_values(y, weights, noise_variance, raw_noise, center):
    """Makes targets of regression targets `[N, D]`.

    `raw_noise` fills as many more columns, those of the noise, unless `None`.
    """
    y = np.asarray(y, np.float64)
    targets = Targets(y, noise_variance / weights)
    output = targets
    if raw_noise is not None:
        output = targets._replace(
            loc=np.hstack([y, np.full_like(y, raw_noise)])
        )
    return LayerTargets(targets.centered() if center else targets, output)
