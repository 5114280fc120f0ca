import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import regularizers
from tfp_refine.math import gaussian
from tfp_refine.regularizers import kl_regularizer

PRIORS = [
    regularizers.GaussianKL(0.6),
    regularizers.EmpiricalBayesKL(),
    regularizers.EmpiricalBayesKL(learn_mean=True),
    regularizers.EmpiricalBayesKL(closed_form=True),
    regularizers.CollapsedMeanKL(0.2, prior_scale=0.6),
    regularizers.CollapsedMeanKL(0.2, prior_scale=0.6, learn="gradient"),
    regularizers.CollapsedMeanKL(0.2, prior_scale=0.6, learn="closed_form"),
]


def variable(initializer=None, **options):
    return keras.Variable(initializer, dtype="float64", **options)


@pytest.mark.parametrize("prior", PRIORS)
def test_the_total_is_the_sum_with_its_gradients(prior, posterior):
    loc = keras.Variable(posterior[0], dtype="float64")
    weights = prior.prior_weights(
        kl_regularizer.PriorSite("kernel", loc, variable, {})
    )
    values = [w.value for w in weights if isinstance(w, keras.Variable)]
    arguments = [loc.value, posterior[1], *values]
    found = []
    for function in (
        prior.total,
        lambda *x: tf.reduce_sum(prior.elementwise(*x)),
    ):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            kl = 3.0 * function(loc.value, posterior[1], weights)
        found.append([kl, *tape.gradient(kl, arguments)])
    assert None not in found[0]
    for total, summed in zip(*found, strict=True):
        np.testing.assert_allclose(total, summed, rtol=1e-10, atol=1e-12)


class _PerWeight(regularizers.GaussianKL):
    """A prior of each weight."""

    def prior(self, loc, scale, prior_weights=()):
        return gaussian.Gaussian(0.5 * loc, 1.0 + tf.abs(loc))


class _Doubled(regularizers.GaussianKL):
    def elementwise(self, loc, scale, prior_weights=(), draw=None):
        return 2.0 * super().elementwise(loc, scale, prior_weights, draw)


@pytest.mark.parametrize("make", [_PerWeight, _Doubled])
def test_what_a_subclass_changes_is_what_is_summed(rng, make):
    loc = tf.constant(rng.normal(size=(3, 4)))
    scale = tf.constant(rng.uniform(0.1, 2.0, size=(3, 4)))
    regularizer = make(0.7)
    np.testing.assert_allclose(
        regularizer(loc, scale),
        np.sum(regularizer.elementwise(loc, scale)),
        rtol=1e-12,
    )
