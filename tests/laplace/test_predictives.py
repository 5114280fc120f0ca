import keras
import numpy as np
import pytest
import scipy.special

from tests.support import trained_models
from tfp_refine import laplace
from tfp_refine.laplace import predictives

HESSIANS = ("full", "kron", "diag")


@pytest.fixture(autouse=True)
def _double():
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


def fit(rng, hessian="full"):
    model, x, y = trained_models.classifier(rng)
    posterior = laplace.LastLayerLaplace(model, "classification", hessian)
    return posterior.fit(x, y, verbose=0), x


def shrink(mean, variance):
    """MacKay's approximation of the logit of `E[sigmoid(f)]`."""
    return mean / np.sqrt(1.0 + np.pi / 8.0 * variance)


@pytest.mark.parametrize("hessian", HESSIANS)
def test_linearized_draws_have_the_moments_of_the_outputs(rng, hessian):
    posterior, x = fit(rng, hessian)
    # The average of one draw is the draw.
    draws = np.stack(
        [
            posterior.predict_proba(x, 1, method="linearized", seed=seed)
            for seed in range(150)
        ]
    )
    odds = np.log(draws[..., 1:] / draws[..., :1])
    contrasts = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    mean, covariance = posterior.linearized_outputs(x)
    root = np.linalg.cholesky(
        np.linalg.inv(contrasts @ covariance @ contrasts.T)
    )
    whitened = np.einsum("snd,nde->sne", odds - mean @ contrasts.T, root)
    whitened = whitened.reshape(-1, 2)
    # 6 standard errors of 6000 draws: 0.013, and 0.018 of a variance.
    np.testing.assert_allclose(whitened.mean(axis=0), 0.0, atol=0.08)
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(2), atol=0.11)


@pytest.mark.parametrize("likelihood", ["classification", "regression"])
def test_averages_are_those_of_the_draws(rng, likelihood):
    model, x, y = trained_models.logistic_regression(rng, 0.1)
    posterior = laplace.LastLayerLaplace(model, likelihood).fit(x, y, verbose=0)
    draws = posterior.predict(x, 5, seed=3)
    found = posterior.summarize(x, 5, seed=3)
    np.testing.assert_allclose(found.mean, draws.mean(axis=0), rtol=1e-5)
    assert (found.entropy is None) == (likelihood == "regression")
    if likelihood == "classification":
        probs = scipy.special.expit(draws)[..., 0].mean(axis=0)
        np.testing.assert_allclose(
            posterior.predict_proba(x, 5, seed=3),
            np.stack([1.0 - probs, probs], axis=-1),
            atol=1e-6,
        )


@pytest.mark.parametrize("hessian", HESSIANS)
def test_closed_forms_are_those_of_the_moments_of_the_outputs(rng, hessian):
    posterior, x = fit(rng, hessian)
    mean, covariance = posterior.linearized_outputs(x)
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(
        posterior.predict_proba(x, method="probit"),
        scipy.special.softmax(shrink(mean, variance), axis=-1),
    )
    odds = shrink(
        mean[:, :, np.newaxis] - mean[:, np.newaxis],
        variance[:, :, np.newaxis] + variance[:, np.newaxis] - 2 * covariance,
    )
    probs = 1.0 / np.exp(-odds).sum(axis=-1)
    np.testing.assert_allclose(
        posterior.predict_proba(x, method="mean_field"),
        probs / probs.sum(axis=-1, keepdims=True),
    )


@pytest.mark.parametrize("method", ["probit", "mean_field"])
def test_one_output_is_shrunk_by_its_variance(rng, method):
    model, x, y = trained_models.logistic_regression(rng, 0.1)
    posterior = laplace.LastLayerLaplace(
        model, "classification", prior_precision=0.1
    ).fit(x, y, verbose=0)
    mean, covariance = posterior.linearized_outputs(x)
    expected = scipy.special.expit(shrink(mean[:, 0], covariance[:, 0, 0]))
    found = posterior.predict_proba(x, method=method)
    np.testing.assert_allclose(found[:, 1], expected)
    np.testing.assert_allclose(found[:, 0], 1.0 - expected)


@pytest.mark.parametrize("hessian", HESSIANS)
def test_blocks_of_examples_change_no_moments(rng, hessian, monkeypatch):
    posterior, x = fit(rng, hessian)

    def found():
        return (
            *posterior.linearized_outputs(x),
            posterior.predict_proba(x, method="probit"),
            posterior.predict_proba(x, method="mean_field"),
        )

    whole = found()
    # 7 examples for "full", and more for the others.
    monkeypatch.setattr("tfp_refine.laplace.laplace._MAX_NUMBERS", 7 * 45)
    for block, expected in zip(found(), whole, strict=True):
        np.testing.assert_allclose(block, expected)


def test_linearized_draws_differ_between_examples(rng, monkeypatch):
    posterior, x = fit(rng)
    monkeypatch.setattr("tfp_refine.laplace.laplace._MAX_NUMBERS", 7 * 45)
    same = np.repeat(x[:1], 20, axis=0)
    draw = posterior.predict_proba(same, 1, method="linearized")
    assert len(np.unique(draw, axis=0)) == 20


def test_outputs_without_variance_are_sure():
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(3, use_bias=False)]
    )
    x = np.eye(2)[np.arange(12) % 2]
    posterior = laplace.LastLayerLaplace(model, "classification").fit(
        x, np.arange(12) % 3, verbose=0
    )
    for method in predictives.PREDICTIVES:
        probs = posterior.predict_proba(np.zeros((1, 2)), method=method, seed=0)
        np.testing.assert_allclose(probs, 1.0 / 3.0, rtol=1e-6)


def test_predictions_that_overflow_are_refused(rng):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    x = rng.normal(size=(12, 2))
    posterior = laplace.LastLayerLaplace(
        model, "classification", prior_precision=1e-40
    ).fit(x, np.arange(12) % 3, verbose=0)
    posterior.prior_precision = 1e-80  # of float32, not of float64
    for predict in (
        posterior.predict,
        posterior.predict_proba,
        posterior.summarize,
    ):
        with pytest.raises(ValueError, match="Predictions must be finite"):
            predict(1e10 * x, seed=0)


def test_targets_alone_do_not_refine(rng):
    posterior, _ = fit(rng)
    with pytest.raises(ValueError, match="`y` needs `x`"):
        posterior.refine(None, np.zeros(40))
