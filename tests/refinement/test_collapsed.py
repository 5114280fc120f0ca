"""Bounds and refinement of posteriors with priors other than fixed ones."""

import keras
import numpy as np
import pytest
from scipy import stats

import tfp_refine as tfr
from tests.support import linear_gaussian
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import refinement
from tfp_refine import regularizers

PRIOR_SCALE, ALPHA_REG = 0.2, 0.05


@pytest.fixture(scope="module")
def problem():
    # Data that say little: posteriors are nearly as wide as the prior.
    return linear_gaussian.LinearGaussian(
        noise_scale=2.0, prior_scale=PRIOR_SCALE
    )


def make_model(problem, regularizer, posterior="mean_field"):
    """Returns the linear model, with the weights drawn."""
    inputs = keras.Input((2,))
    layer = layers.DenseReparameterization(
        1,
        use_bias=False,
        kernel_regularizer=regularizer,
        kernel_posterior=posterior,
        num_train_examples=len(problem.x),
    )
    model = keras.Model(inputs, layer(inputs))
    model.compile(loss=losses.GaussianNLL(problem.noise_scale))
    layer.variational_weights[0].assign(loc=problem.mean)
    if posterior == "mean_field":
        layer.variational_weights[0].assign(*problem.mean_field())
    return model


def log_likelihood(problem, loc, covariance):
    """Computes its expectation, and the deviation of that of one draw."""
    x, y = problem.x.astype(np.float64), problem.y.astype(np.float64)
    rng = np.random.default_rng(3)
    draws = rng.multivariate_normal(np.ravel(loc), covariance, size=4000)
    normal = stats.norm(0.0, problem.noise_scale)
    at_draws = normal.logpdf(y - x @ draws.T).sum(axis=0)
    at_mean = normal.logpdf(y - x @ loc).sum()
    trace = np.trace(x @ covariance @ x.T)
    return at_mean - 0.5 * trace / problem.noise_scale**2, at_draws.std()


# The bound.


@pytest.mark.slow
@pytest.mark.parametrize(
    "regularizer",
    [
        regularizers.CollapsedMeanKL(ALPHA_REG, PRIOR_SCALE),
        regularizers.CollapsedMeanKL(0.3, "he"),
        regularizers.CollapsedMeanKL(learn="closed_form"),
        regularizers.CollapsedMeanKL(learn="gradient", exponential_rate=5.0),
        regularizers.CollapsedVarianceKL(),
        regularizers.CollapsedMeanVarianceKL(1.5, 0.1, 0.3),
        regularizers.LogUniformKL(),
        regularizers.EmpiricalBayesKL(
            learn_mean=True, inverse_gamma=(2.01, 0.101)
        ),
    ],
)
def test_elbo_is_the_likelihood_less_the_divergence(problem, regularizer):
    model = make_model(problem, regularizer)
    loc, scale = problem.mean_field()
    (loss,) = model.losses
    layers.set_kl_scale(model, 0.5)  # of no effect
    expected, stddev = log_likelihood(
        problem, loc, np.diag(np.square(scale[:, 0]))
    )
    found = refinement.elbo(
        model, problem.x, problem.y, num_samples=4000, seed=1
    )
    # 6 standard deviations of the estimate: a false alarm in 1e8 seeds.
    assert abs(found - expected + 20.0 * float(loss)) < 6 * stddev / 4000**0.5


@pytest.mark.slow
def test_elbo_averages_a_divergence_that_needs_draws(problem):
    mixture = (0.3, 0.8, 0.05)
    model = make_model(problem, regularizers.ScaleMixtureKL(*mixture))
    loc, scale = problem.mean_field()
    expected, stddev = log_likelihood(
        problem, loc, np.diag(np.square(scale[:, 0]))
    )
    noise = np.random.default_rng(4).normal(size=(100000, 2, 1))
    draws = loc + scale * noise
    prior = mixture[0] * stats.norm(0.0, mixture[1]).pdf(draws)
    prior += (1 - mixture[0]) * stats.norm(0.0, mixture[2]).pdf(draws)
    kls = stats.norm(loc, scale).logpdf(draws) - np.log(prior)
    kls = kls.sum(axis=(1, 2))
    num = 200
    found = [
        refinement.elbo(model, problem.x, problem.y, num_samples=num, seed=seed)
        for seed in range(3)
    ]
    # Standard deviations of the estimate, and of its reference.
    stddev = (stddev**2 / num + kls.var() / num + kls.var() / 1e5) ** 0.5
    # One draw of the divergence would not do.
    assert kls.std() > 12 * stddev
    np.testing.assert_allclose(found, expected - kls.mean(), atol=6 * stddev)


def test_elbo_with_draws_repeats_with_its_seed(problem):
    model = make_model(problem, regularizers.ScaleMixtureKL())
    found = []
    for seed in (1, 1, 2):
        model(problem.x)  # leaves a draw behind
        found.append(
            refinement.elbo(
                model, problem.x, problem.y, num_samples=2, seed=seed
            )
        )
    assert found[0] == found[1]
    assert found[0] != found[2]


# Of two weights there is a covariance of rank 1, and not more.
FAMILIES = {
    "k_tied": layers.KTiedPosterior(1, 0.1),
    "low_rank": layers.LowRankPosterior(1, 0.1),
    "fixed_variance": layers.FixedVariancePosterior(0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_elbo_is_that_of_any_posterior_family(problem, family):
    regularizer = regularizers.CollapsedMeanKL(ALPHA_REG, PRIOR_SCALE)
    model = make_model(problem, regularizer, FAMILIES[family])
    (weight,) = model.layers[1].variational_weights
    assert weight.family == family
    covariance = np.diag(np.square(np.ravel(weight.independent_scale)))
    if family == "low_rank":
        weight.factor.assign(np.reshape([0.3, -0.2], weight.factor.shape))
        covariance += np.outer([0.3, -0.2], [0.3, -0.2])
    expected, stddev = log_likelihood(problem, problem.mean, covariance)
    found = refinement.elbo(
        model, problem.x, problem.y, num_samples=4000, seed=1
    )
    gap = found - expected + float(weight.kl())
    assert abs(gap) < 6 * stddev / 4000**0.5 + 1e-4


# Refinement.


def analytic_gap(weights, alpha_reg):
    """Computes how much lower the collapsed bound is."""
    return sum(
        np.sum(np.square(w.scale)) / w.regularizer.prior_scale**2
        for w in weights
    ) * (0.5 * (1.0 - alpha_reg))


@pytest.mark.parametrize(
    "learn",
    [
        pytest.param(None, marks=pytest.mark.slow),
        pytest.param("gradient", marks=pytest.mark.slow),
        "closed_form",
    ],
)
def test_refinement_starts_above_the_collapsed_bound(problem, learn):
    regularizer = regularizers.CollapsedMeanKL(
        ALPHA_REG, PRIOR_SCALE, learn=learn
    )
    model = make_model(problem, regularizer)
    (weight,) = model.layers[1].variational_weights
    loc, scale = np.array([[0.5], [-1.0]]), problem.mean_field()[1]
    weight.assign(loc=loc)
    alpha_reg = ALPHA_REG
    if learn == "closed_form":
        alpha_reg = PRIOR_SCALE**2 / np.mean(np.square(loc))
        assert alpha_reg < 0.1
    gap = analytic_gap([weight], alpha_reg)
    assert gap > 0.5
    # Exactly, from the regularizer and from the prior that it tells of.
    np.testing.assert_allclose(
        float(weight.kl())
        - float(regularizers.GaussianKL(float(weight.prior.scale))(
            weight.loc, weight.scale
        )),
        gap,
        rtol=1e-4,
    )  # fmt: skip
    # And of the public bounds, by estimates of 4000 and of 2500 draws.
    collapsed = refinement.elbo(
        model, problem.x, problem.y, num_samples=4000, seed=1
    )
    same_draws = refinement.elbo(
        model, problem.x, problem.y, num_samples=4000, seed=1,
        marginal_prior=True,
    )  # fmt: skip
    np.testing.assert_allclose(same_draws - collapsed, gap, rtol=1e-4)
    ensemble = linear_gaussian.refine(
        model, problem.x, problem.y, num_members=2, steps=1,
        variance_ratios=(0.5,), num_eval_samples=2500,
    )  # fmt: skip
    _, stddev = log_likelihood(problem, loc, np.diag(np.square(scale[:, 0])))
    # 6 standard deviations of a difference of two estimates.
    tolerance = 6 * stddev * (1 / 4000 + 1 / 2500) ** 0.5
    assert tolerance < 0.4 * gap
    np.testing.assert_allclose(
        ensemble.elbo_init - collapsed, gap, atol=tolerance
    )
    marginal = linear_gaussian.LinearGaussian(
        noise_scale=2.0, prior_scale=PRIOR_SCALE / alpha_reg**0.5
    )
    np.testing.assert_allclose(
        ensemble.elbo_init, marginal.elbo(loc, scale), atol=tolerance
    )


def trained(problem, regularizer):
    """Returns a model of two layers that share a regularizer, trained."""
    inputs = keras.Input((2,))
    x = inputs
    for units in (3, 1):
        x = layers.DenseLocalReparameterization(
            units,
            kernel_regularizer=regularizer,
            bias_regularizer=regularizer,
            num_train_examples=len(problem.x),
            seed=units,
        )(x)
    model = keras.Model(inputs, x)
    model.compile(
        keras.optimizers.Adam(0.01),
        losses.GaussianNLL(problem.noise_scale),
        run_eagerly=True,  # for so few steps, the fastest
    )
    # Means that are large, so that no best `alpha_reg` is 1.
    for layer in model.layers[1:]:
        for weight in layer.variational_weights:
            signs = np.where(np.arange(weight.loc.shape[-1]) % 2, 1.0, -1.0)
            size = 2.0 if weight.name == "kernel" else 0.5
            weight.assign(loc=np.broadcast_to(size * signs, weight.loc.shape))
    model.fit(problem.x, problem.y, epochs=2, verbose=0)
    return model


def alphas(model):
    """Returns the value in place of `alpha_reg` in each prior."""
    return [
        float(w.regularizer.prior_scale**2 / w.prior.scale**2)
        for layer in model.layers[1:]
        for w in layer.variational_weights
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"learn": "gradient", "exponential_rate": 5.0},
        {"learn": "gradient", "shared": True},
        {"learn": "closed_form", "shared": True},
    ],
    ids=["fixed", "gradient", "shared_gradient", "shared_closed_form"],
)
def test_a_trained_model_is_refined_and_saved(problem, arguments, tmp_path):
    regularizer = regularizers.CollapsedMeanKL(**arguments)
    model = trained(problem, regularizer)
    scales = [
        np.full(w.loc.shape, w.prior.scale).ravel()
        for layer in model.layers[1:]
        for w in layer.variational_weights
    ]
    ensemble = linear_gaussian.refine(
        model, problem.x, problem.y, num_members=2, steps=3
    )
    assert np.all(np.isfinite(ensemble.elbo_final))
    # Of the prior that stood when it began, two parts are taken.
    rest = np.sqrt((1 - 0.7) * (1 - 0.5))
    np.testing.assert_allclose(
        ensemble.prior.scale,
        np.tile(np.concatenate(scales) * rest, (2, 1)),
        rtol=1e-5,
    )
    ensemble.save(tmp_path / "a.posterior")
    loaded = tfr.load_posterior(tmp_path / "a.posterior")
    np.testing.assert_array_equal(
        loaded.predict(problem.x, num_samples=4, seed=1),
        ensemble.predict(problem.x, num_samples=4, seed=1),
    )
    for member in (ensemble.member(1), loaded.member(1)):
        assert len(member.weights) == len(model.weights)
        np.testing.assert_allclose(
            member.layers[1].variational_weights[0].loc,
            np.reshape(ensemble.loc[1, :6], (2, 3)),
        )
        # Members share the weights that the layers share.
        found = alphas(member)
        if arguments.get("learn") != "closed_form":
            np.testing.assert_allclose(found, alphas(model), rtol=1e-6)
        np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
        if arguments.get("shared"):
            np.testing.assert_allclose(found, found[0], rtol=1e-6)
        assert np.all(np.isfinite(member.losses))


# Models that cannot be refined.


@pytest.mark.parametrize(
    ("regularizer", "message"),
    [
        ("collapsed_variance_kl", "CollapsedVarianceKL is a Student t"),
        (
            "collapsed_mean_variance_kl",
            "CollapsedMeanVarianceKL is a Student t",
        ),
        ("log_uniform_kl", "LogUniformKL is not Gaussian"),
        ("scale_mixture_kl", "ScaleMixtureKL is not Gaussian"),
    ],
)
def test_priors_that_are_not_gaussian_are_refused(
    problem, regularizer, message
):
    model = make_model(problem, regularizer)
    message = f"needs a Gaussian prior for '.*/kernel_loc'.* {message}"
    with pytest.raises(ValueError, match=message):
        linear_gaussian.refine(model, problem.x, problem.y)


@pytest.mark.parametrize("family", FAMILIES)
def test_posteriors_that_are_not_mean_field_are_refused(problem, family):
    regularizer = regularizers.CollapsedMeanKL(ALPHA_REG, PRIOR_SCALE)
    model = make_model(problem, regularizer, FAMILIES[family])
    message = f"mean-field.*'.*/kernel_loc' of the family '{family}'"
    with pytest.raises(ValueError, match=message):
        linear_gaussian.refine(model, problem.x, problem.y)


def test_a_marginal_prior_must_be_gaussian(problem):
    model = make_model(problem, regularizers.CollapsedVarianceKL())
    with pytest.raises(ValueError, match="CollapsedVarianceKL is a Student t"):
        refinement.elbo(
            model, problem.x, problem.y, marginal_prior=True, seed=1
        )
