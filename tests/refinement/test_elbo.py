import pytest

from tests.support import linear_gaussian
from tfp_refine import refinement


def test_elbo_is_the_exact_one_of_a_linear_model():
    problem = linear_gaussian.LinearGaussian()
    exact = problem.elbo(*problem.mean_field())
    estimate = refinement.elbo(
        problem.model(), problem.x, problem.y, num_samples=2000, seed=1
    )
    # The standard deviation of the estimate is 0.017: 7 of them.
    assert abs(estimate - exact) < 0.12


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
