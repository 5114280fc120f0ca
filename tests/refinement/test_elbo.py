import keras
import numpy as np
import pytest
from scipy import stats

from tests.support import layer_case
from tests.support import linear_gaussian
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import optimizers
from tfp_refine import posteriors
from tfp_refine import refinement


def test_elbo_is_the_exact_one_of_a_linear_model():
    problem = linear_gaussian.LinearGaussian()
    exact = problem.elbo(*problem.mean_field())
    estimate = refinement.elbo(
        problem.model(), problem.x, problem.y, num_samples=2000, seed=1
    )
    # The standard deviation of the estimate is 0.017: 7 of them.
    assert abs(estimate - exact) < 0.12


def double(problem, optimizer=None):
    """Returns the regression without posteriors, in double precision."""
    model = keras.Sequential(
        [
            keras.Input((2,), dtype="float64"),
            keras.layers.Dense(1, use_bias=False, dtype="float64"),
        ]
    )
    loss = losses.GaussianNLL(problem.noise_scale, dtype="float64")
    model.compile(optimizer, loss)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("diagonal", [True, False])
def test_elbo_of_a_gaussian_is_the_exact_one(diagonal):
    problem = linear_gaussian.LinearGaussian(prior_scale=1.5)
    view = functional.WeightView(double(problem))
    if diagonal:
        loc, scale = problem.mean_field()
        covariance = posteriors.covariances.Diagonal(scale[:, 0])
        exact = problem.elbo(loc, scale)
    else:  # the posterior itself
        values, vectors = np.linalg.eigh(problem.precision)
        covariance = posteriors.covariances.Full(vectors, values**-0.5)
        exact = problem.log_evidence()
    posterior = posteriors.GaussianPosterior(
        view, problem.mean[:, 0], covariance, [], prior_scale=1.5
    )
    estimate = refinement.elbo(
        posterior, problem.x, problem.y, num_samples=1000, seed=1
    )
    # Standard deviations of the likelihood of a draw, about 1 nat each.
    assert abs(estimate - exact) < 0.2
    again = refinement.elbo(
        posterior, problem.x, problem.y, num_samples=10, seed=2
    )
    assert again != estimate


@pytest.mark.slow
def test_elbo_of_what_ivon_trained_is_that_of_its_means_and_scales():
    problem = linear_gaussian.LinearGaussian(prior_scale=1.5)
    optimizer = optimizers.IVON(0.1, 20, 1.5, beta_2=0.99, seed=1)
    model = double(problem, optimizer)
    model.fit(problem.x, problem.y, 20, 20, verbose=0)
    (kernel,) = model.trainable_variables
    exact = problem.elbo(kernel.numpy(), optimizer.scale_of(kernel))
    estimate = refinement.elbo(
        model, problem.x, problem.y, num_samples=1000, seed=1
    )
    assert abs(estimate - exact) < 0.2
    assert estimate < problem.log_evidence()


def test_elbo_repeats_with_its_seed():
    problem = linear_gaussian.LinearGaussian()
    model = problem.model()
    first, second, other = (
        refinement.elbo(model, problem.x, problem.y, seed=seed)
        for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


def test_elbo_uses_the_prior_as_it_stands():
    problem = linear_gaussian.LinearGaussian()
    loc, scale = problem.mean_field()
    problem.prior_scale = 3.0
    model = problem.model()
    model.layers[-1].variational_weights[0].assign(loc, scale)
    estimate = refinement.elbo(
        model, problem.x, problem.y, num_samples=2000, seed=1
    )
    assert abs(estimate - problem.elbo(loc, scale)) < 0.12


def test_elbo_needs_draws():
    problem = linear_gaussian.LinearGaussian()
    with pytest.raises(ValueError, match="num_samples"):
        refinement.elbo(problem.model(), problem.x, problem.y, num_samples=0)


def random_divergence(**arguments):
    """Returns a model whose likelihood is known, but not its divergence."""
    inputs = keras.Input((3,))
    layer = layers.DenseMNF(
        2,
        num_train_examples=4,
        seed=1,
        flow_length=1,
        auxiliary_flow_length=1,
        bias_posterior=None,
        **arguments,
    )
    model = keras.Model(inputs, layer(inputs))
    model.compile(loss=losses.GaussianNLL(1.0))
    layer_case.spread(layer)
    return model, np.zeros([4, 3], "float32"), np.zeros([4, 2], "float32")


def test_elbo_averages_a_random_divergence(monkeypatch):
    model, x, y = random_divergence()
    (weight,) = model.layers[-1].variational_weights
    draws = []
    kl = weight.kl
    monkeypatch.setattr(
        weight, "kl", lambda **k: draws.append(float(kl(**k))) or draws[-1]
    )
    log_likelihood = -4.0 * np.log(2.0 * np.pi)
    for num_samples in (1, 20):
        draws.clear()
        found = refinement.elbo(model, x, y, num_samples=num_samples, seed=1)
        assert len(set(draws)) == len(draws) == num_samples
        np.testing.assert_allclose(
            found, log_likelihood - np.mean(draws), rtol=1e-5
        )


@pytest.mark.slow
def test_elbo_averages_a_random_divergence_from_the_marginal_prior():
    model, x, y = random_divergence(kernel_regularizer="collapsed_mean_kl")
    first, second, other, collapsed = (
        refinement.elbo(
            model, x, y, marginal_prior=marginal, num_samples=3, seed=seed
        )
        for marginal, seed in ((True, 1), (True, 1), (True, 2), (False, 1))
    )
    assert first == second
    assert first != other
    # The collapsed bound also pays for the means.
    assert first > collapsed


def test_the_bound_is_that_of_the_draws_where_scales_are_limited():
    # y = w.x + e with 50 weights N(0, 1) a priori: the evidence is known.
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 50)), np.zeros((20, 1))
    layer = layers.DenseMNF(
        1,
        use_bias=False,
        flow_length=0,
        max_std=0.1,
        log_var_init=0.0,
        kernel_initializer="zeros",
        num_train_examples=20,
        seed=0,
    )
    model = keras.Sequential([keras.Input((50,)), layer])
    bound = refinement.elbo(
        model, x, y, loss=losses.GaussianNLL(1.0), num_samples=50, seed=0
    )
    covariance = x @ x.T + np.eye(20)
    evidence = stats.multivariate_normal(np.zeros(20), covariance).logpdf(
        y[:, 0]
    )
    assert bound < evidence
    # That of independent weights of standard deviation 0.1, in closed form.
    log_likelihood = -10.0 * np.log(2 * np.pi) - 0.5 * 0.01 * np.sum(x**2)
    kl = 50 * (0.5 * (0.01 - 1.0) - np.log(0.1))
    np.testing.assert_allclose(bound, log_likelihood - kl, rtol=0.02)
    with pytest.raises(ValueError, match="max_std=0.1"):
        refinement.refine(model, x, y, loss=losses.GaussianNLL(1.0))
