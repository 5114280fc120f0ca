import re

import keras
import numpy as np
import pytest
from scipy import stats

from tests.support import trained_models
from tfp_refine import laplace
from tfp_refine.laplace import evidence
from tfp_refine.laplace import predictives


@pytest.fixture(autouse=True)
def _double():
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


def fit(model, x, y, kind="classification", hessian="full", **arguments):
    posterior = laplace.LastLayerLaplace(model, kind, hessian, **arguments)
    return posterior.fit(x, y, verbose=0)


@pytest.fixture
def wrong_regression(rng):
    """A posterior whose mean is wrong, and other data of the same kind."""
    model, x, y = trained_models.ridge_regression(rng, 0.4, 2.0)
    kernel = model.layers[-1].kernel
    kernel.assign_add(rng.normal(size=kernel.shape))
    posterior = fit(model, x[:3], y[:3], "regression", noise_scale=0.4)
    return posterior, (x[3:], y[3:])


def test_evidence_at_given_values_is_that_of_a_posterior_with_them(rng):
    model, x, y = trained_models.ridge_regression(rng, 0.7, 2.0)
    posterior = fit(model, x, y, "regression")
    other = fit(model, x, y, "regression", prior_precision=3.0, noise_scale=0.4)
    np.testing.assert_allclose(
        posterior.log_marginal_likelihood(3.0, 0.4),
        other.log_marginal_likelihood(),
    )
    assert (posterior.prior_precision, posterior.noise_scale) == (1.0, 1.0)


def test_the_noise_is_left_if_it_shall_not_be_tuned(rng):
    model, x, y = trained_models.ridge_regression(rng, 0.7, 2.0)
    posterior = fit(model, x, y, "regression", noise_scale=5.0)
    best = posterior.optimize_prior_precision(tune_noise=False)
    assert posterior.noise_scale == 5.0
    at_best = posterior.log_marginal_likelihood()
    for factor in (0.9, 1.1):
        assert posterior.log_marginal_likelihood(best * factor) < at_best


@pytest.mark.parametrize(
    ("eigenvalue", "squared_norm", "expected"),
    [(0.0, 1.0, 1e-10), (1.0, 0.0, 1e10)],
    ids=["no_data", "no_weights"],
)
def test_an_evidence_without_a_peak_is_warned_of(
    eigenvalue, squared_norm, expected
):
    with pytest.warns(UserWarning, match=re.escape(f"{expected:g} is taken")):
        found = evidence.best_prior_precision(
            np.full(3, eigenvalue), squared_norm
        )
    np.testing.assert_allclose(found, expected)


def test_a_grid_search_of_a_regression_judges_the_noisy_predictive(
    wrong_regression,
):
    posterior, (x, y) = wrong_regression
    best = posterior.optimize_prior_precision(
        "grid_search", validation_data=(x, y), verbose=0
    )
    grid = np.logspace(-4, 4, 100)
    losses = []
    for precision in grid:
        posterior.prior_precision = precision
        mean, covariance = posterior.predict_moments(x)
        variance = np.diagonal(covariance, axis1=1, axis2=2)
        losses.append(-stats.norm.logpdf(y, mean, np.sqrt(variance)).mean())
    assert best == grid[np.argmin(losses)]
    assert 1e-3 < best < 1.0


@pytest.mark.parametrize("predictive", predictives.PREDICTIVES)
def test_a_grid_search_judges_the_predictive_that_is_named(rng, predictive):
    model, x, y = trained_models.classifier(rng)
    posterior = fit(model, x[:2], y[:2])
    grid = np.logspace(-2, 2, 40)
    options = {"num_samples": 3, "seed": 5}
    best = posterior.optimize_prior_precision(
        "grid_search",
        validation_data=(x, y),
        grid=grid,
        predictive=predictive,
        verbose=0,
        **options,
    )
    losses = []
    for precision in grid:
        posterior.prior_precision = precision
        probs = posterior.predict_proba(x, method=predictive, **options)
        losses.append(-np.mean(np.log(probs[np.arange(40), y])))
    assert best == grid[np.argmin(losses)]


def test_a_grid_search_survives_predictions_that_are_nan(rng):
    model = keras.Sequential(
        [
            keras.Input((2,), dtype="float32"),
            keras.layers.Dense(3, dtype="float32"),
        ]
    )
    x, y = rng.normal(size=(20, 2)), rng.integers(0, 3, 20)
    # The second input is always 0: the prior alone bounds its weights.
    posterior = fit(model, x * [1.0, 0.0], y, hessian="diag")
    best = posterior.optimize_prior_precision(
        "grid_search", validation_data=(x, y), grid=[1e-100, 1.0], verbose=0
    )
    assert best == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"validation_data": None}, r"`validation_data` must be \(x, y\) or"),
        ({"validation_data": (1,)}, r"`validation_data` must be \(x, y\) or"),
        ({"grid": []}, "`grid`"),
        ({"grid": 3.0}, "`grid`"),
        ({"grid": [1.0, 0.0]}, "`grid`"),
        ({"predictive": "exact"}, "'exact'"),
        ({"method": "evidence"}, "`method`"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(wrong_regression, arguments, message):
    posterior, data = wrong_regression
    given = {"method": "grid_search", "validation_data": data, "verbose": 0}
    with pytest.raises(ValueError, match=message):
        posterior.optimize_prior_precision(**(given | arguments))
    assert posterior.prior_precision == 1.0
