"""`EmpiricalBayesKL` with a learned mean, or a hyperprior."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import optimize
from scipy import stats

from tests.support import empirical_bayes
from tfp_refine import regularizers

# With a mean.


def kl_from(posterior, mean, variance):
    """Computes the KL from `N(mean, variance)` by hand."""
    loc, scale = posterior
    ratios = np.square(scale) / variance
    squares = np.square(loc - mean) / variance
    return 0.5 * np.sum(ratios + squares - 1.0 - np.log(ratios))


def test_closed_form_with_a_mean_is_the_least_kl_of_all_priors(posterior):
    posterior = (posterior[0] + 0.7, posterior[1])
    closed = regularizers.EmpiricalBayesKL(closed_form=True, learn_mean=True)
    prior = closed.prior(*posterior)
    assert prior.loc.shape == prior.scale.shape == []
    mean = np.mean(posterior[0])
    variance = np.mean(np.square(posterior[1]) + np.var(posterior[0]))
    np.testing.assert_allclose(prior.loc, mean, rtol=1e-12)
    np.testing.assert_allclose(prior.scale**2, variance, rtol=1e-12)
    found = optimize.minimize(
        lambda values: kl_from(posterior, values[0], np.exp(values[1])),
        (0.0, 0.0),
        tol=1e-10,
    )
    np.testing.assert_allclose(
        found.x, [mean, np.log(variance)], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(closed(*posterior), found.fun, rtol=1e-9)
    assert closed(*posterior) < kl_from(posterior, 0.0, variance)


def test_a_mean_that_is_not_learned_is_zero(posterior):
    posterior = (posterior[0] + 0.7, posterior[1])
    for closed_form in (False, True):
        prior = regularizers.EmpiricalBayesKL(closed_form).prior(*posterior)
        assert float(prior.loc) == 0.0
    loc, scale = posterior
    np.testing.assert_allclose(
        prior.scale**2, np.mean(np.square(loc) + np.square(scale)), rtol=1e-12
    )


def test_training_a_prior_with_a_mean_converges_to_the_closed_form(posterior):
    posterior = (posterior[0] + 0.7, posterior[1])
    closed = regularizers.EmpiricalBayesKL(closed_form=True, learn_mean=True)
    regularizer = regularizers.EmpiricalBayesKL(learn_mean=True)
    variables = (
        tf.Variable(empirical_bayes.softplus_inverse(1.5)),
        tf.Variable(np.float64(0)),
    )

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            kl = regularizer(*posterior, variables)
        gradients = tape.gradient(kl, variables)
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(0.2 / 30 * gradient)

    for _ in range(300):
        step()
    prior = regularizer.prior(*posterior, variables)
    expected = closed.prior(*posterior)
    np.testing.assert_allclose(prior.loc, expected.loc, rtol=1e-8)
    np.testing.assert_allclose(prior.scale, expected.scale, rtol=1e-8)
    np.testing.assert_allclose(
        regularizer(*posterior, variables), closed(*posterior), rtol=1e-12
    )


def test_each_tensor_has_a_mean_of_its_own():
    layer = empirical_bayes.build(
        regularizers.EmpiricalBayesKL(learn_mean=True)
    )
    kernel, bias = layer.variational_weights
    assert [v.name for v in (*kernel.prior_weights, *bias.prior_weights)] == [
        "kernel_prior_untransformed_scale",
        "kernel_prior_loc",
        "bias_prior_untransformed_scale",
        "bias_prior_loc",
    ]
    assert float(kernel.prior.loc) == float(bias.prior.loc) == 0.0
    kernel.prior_weights[1].assign(0.5)
    bias.prior_weights[1].assign(-2.0)
    assert float(kernel.prior.loc) == 0.5
    assert float(bias.prior.loc) == -2.0
    np.testing.assert_allclose(
        np.multiply(layer.losses, 10),
        [
            kl_from((w.loc, w.scale), float(w.prior.loc), 1.0)
            for w in (kernel, bias)
        ],
        rtol=1e-5,
    )


# With a hyperprior of the variance.


def cost_from(posterior, mean, variance, hyperprior):
    """Computes the KL and minus the hyperprior's log density by hand."""
    log_prob = stats.invgamma(hyperprior[0], scale=hyperprior[1]).logpdf
    return kl_from(posterior, mean, variance) - log_prob(variance)


@pytest.mark.parametrize("learn_mean", [False, True])
@pytest.mark.parametrize("hyperprior", [(2.01, 0.101), (30.0, 400.0)])
def test_closed_form_with_a_hyperprior_is_the_least_cost(
    posterior, hyperprior, learn_mean
):
    closed = regularizers.EmpiricalBayesKL(
        closed_form=True, learn_mean=learn_mean, inverse_gamma=hyperprior
    )
    prior = closed.prior(*posterior)
    loc, scale = posterior
    mean = np.mean(loc) if learn_mean else 0.0
    concentration, rate = hyperprior
    variance = (np.sum(np.square(scale) + np.square(loc - mean)) + 2 * rate) / (
        30 + 2 * concentration + 2
    )
    np.testing.assert_allclose(prior.loc, mean, rtol=1e-12)
    np.testing.assert_allclose(prior.scale**2, variance, rtol=1e-12)
    np.testing.assert_allclose(
        closed(*posterior),
        cost_from(posterior, mean, variance, hyperprior),
        rtol=1e-12,
    )
    found = optimize.minimize_scalar(
        lambda value: cost_from(posterior, mean, np.exp(value), hyperprior),
        bounds=(-5.0, 5.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    np.testing.assert_allclose(np.exp(found.x), variance, rtol=1e-6)
    np.testing.assert_allclose(found.fun, closed(*posterior), rtol=1e-12)


@pytest.mark.parametrize("value", [0.02, 0.5, 4.0])
def test_penalty_is_the_negative_log_density_of_the_hyperprior(
    posterior, value
):
    regularizer = regularizers.EmpiricalBayesKL(inverse_gamma=(2.01, 0.101))
    raw = (tf.constant(empirical_bayes.softplus_inverse(value**0.5)),)
    penalty = regularizer.penalty(*posterior, raw)
    assert penalty.shape == []
    np.testing.assert_allclose(
        penalty, -stats.invgamma(2.01, scale=0.101).logpdf(value), rtol=1e-12
    )
    np.testing.assert_allclose(
        regularizer(*posterior, raw)
        - empirical_bayes.kl_given(posterior, raw[0]),
        penalty,
        rtol=1e-10,
    )
    # Each tensor has a prior, and each prior a hyperprior.
    layer = empirical_bayes.build(regularizer)
    expected = -stats.invgamma(2.01, scale=0.101).logpdf(1.0)
    for loss, weight in zip(
        layer.losses, layer.variational_weights, strict=True
    ):
        kl = kl_from((weight.loc, weight.scale), 0.0, 1.0)
        np.testing.assert_allclose(10 * loss - kl, expected, rtol=1e-4)


def test_training_with_a_hyperprior_converges_to_the_closed_form(posterior):
    hyperprior = (30.0, 400.0)  # far from the data
    closed = regularizers.EmpiricalBayesKL(True, inverse_gamma=hyperprior)
    regularizer = regularizers.EmpiricalBayesKL(inverse_gamma=hyperprior)
    raw = tf.Variable(empirical_bayes.softplus_inverse(1.5))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            cost = empirical_bayes.kl_given(posterior, raw, regularizer)
        raw.assign_sub(0.2 / 30 * tape.gradient(cost, raw))

    for _ in range(300):
        step()
    np.testing.assert_allclose(
        tf.math.softplus(raw), closed.prior(*posterior).scale, rtol=1e-8
    )
    np.testing.assert_allclose(
        empirical_bayes.kl_given(posterior, raw, regularizer),
        closed(*posterior),
        rtol=1e-12,
    )


def test_gradient_sees_that_the_hyperprior_moves_the_prior(posterior):
    arguments = {"learn_mean": True, "inverse_gamma": (2.01, 0.101)}
    closed = regularizers.EmpiricalBayesKL(closed_form=True, **arguments)
    prior = closed.prior(*posterior)
    raw, mean = empirical_bayes.softplus_inverse(prior.scale), prior.loc
    fixed = regularizers.EmpiricalBayesKL(**arguments)
    gradients = []
    for regularizer, values in ((closed, ()), (fixed, (raw, mean))):
        with tf.GradientTape() as tape:
            tape.watch(posterior)
            cost = regularizer(*posterior, values)
        gradients.append(tape.gradient(cost, posterior))
    # At the least cost, that of a prior which stays where it is.
    for found, expected in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
