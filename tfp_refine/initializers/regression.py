"""Bayesian linear regressions of the units of a layer."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_refine.initializers import targets as layer_targets
from tfp_refine.math import linear_regression

# Of biases that have no prior.
_WIDE = 100.0


class UnitTargets(NamedTuple):
    """Targets of units: `columns` of `targets` times `signs`, `[units]`."""

    targets: layer_targets.Targets
    columns: np.ndarray
    signs: np.ndarray

    @classmethod
    def in_order(cls, targets):
        """Each unit has its own."""
        number = targets.loc.shape[-1]
        return cls(targets, np.arange(number), np.ones(number))

    @classmethod
    def at_random(cls, targets, num_units, random_signs, rng):
        """Units have any target, and perhaps any sign."""
        signs = np.ones(num_units)
        if random_signs:
            signs = rng.choice([-1.0, 1.0], num_units)
        columns = rng.integers(targets.loc.shape[-1], size=num_units)
        return cls(targets, columns, signs)

    def of(self, batch):
        """Returns the targets of a `MiniBatch`, and variances: `[R, U]`.

        Variances are `[R, 1]` if all units have the same.
        """
        repeats = batch.rows.shape[-2] // batch.examples.shape[-1]

        def rows(values):
            columns = self.columns[batch.units]
            if values.shape[-1] == 1:  # One column is shared, as the rows may.
                columns = [0]
            if batch.examples.ndim == 1:
                index = np.ix_(batch.examples, columns)
            else:
                index = batch.examples.T, columns
            return np.repeat(values[index], repeats, axis=0)

        loc = rows(self.targets.loc) * self.signs[batch.units]
        return loc, rows(self.targets.variance)


def fit(
    batches,
    targets,
    prior_variance,
    has_bias,
    divergence,
    weights=None,
    done=lambda number: None,
):
    """Fits units to their mini-batches, given in the order of the units.

    Returns means and variances, `[F (+ 1), units]`, biases last.
    `prior_variance` is `[F]`, or `[F + 1]` with a bias. The variances are those
    of all examples, whose `weights` are `[N]`, or of the mini-batch if `None`.
    `done` is called with the number of units of each mini-batch.
    """
    posteriors = []
    for batch in batches:
        rows = batch.rows
        if has_bias:
            rows = tf.concat([rows, tf.ones_like(rows[..., :1])], axis=-1)
        loc, noise_variance = targets.of(batch)
        posterior = linear_regression.fit(
            rows,
            loc,
            noise_variance,
            prior_variance,
            covariance=divergence == "forward",
        )
        variance = linear_regression.factorized_variance(posterior, divergence)
        if weights is not None:
            # The rows stand for more data, in the precision that they add.
            factor = weights.sum() / weights[batch.examples].sum(axis=-1)
            prior = tf.constant(
                1.0 / prior_variance[:, np.newaxis], variance.dtype
            )
            variance = 1.0 / (prior + factor * (1.0 / variance - prior))
        posteriors.append((posterior.mean, variance))
        done(len(batch.units))
    return [tf.concat(part, axis=-1) for part in zip(*posteriors, strict=True)]


def prior_variances(layer, of_kernel=None, of_bias=None):
    """Finds the variances of a layer's prior, `[F]`, or `[F + 1]` with a bias.

    Without `of_kernel`: those of its prior, or one over the fan-in if that is
    not Gaussian. Without `of_bias`: those of its prior, or wide ones.
    """
    size = layer.columns(layer.kernel).shape[0]
    weights = {weight.name: weight for weight in layer.variational_weights}
    if of_kernel is None:
        of_kernel = _prior_variance(weights["kernel"])
        if of_kernel is None:
            of_kernel = 1.0 / size
        else:
            of_kernel = np.mean(layer.columns(of_kernel), axis=-1)
    variances = np.full([size], of_kernel, np.float64)
    if not layer.use_bias:
        return variances
    if of_bias is None:
        of_bias = _WIDE
        if "bias" in weights:
            known = _prior_variance(weights["bias"])
            of_bias = _WIDE if known is None else np.mean(known)
    return np.append(variances, of_bias)


def _prior_variance(weight):
    """Returns the variances of a prior, `[...]`; `None` if not Gaussian."""
    try:
        prior = weight.prior
    except ValueError:
        prior = None
    if prior is None:
        return None
    return tf.broadcast_to(tf.square(prior.scale), weight.loc.shape)
