import keras
import numpy as np
import pytest
import scipy.special

from tests.support import trained_models
from tfp_refine import laplace

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
    draws = posterior.predict(x, "linearized", 2000, seed=0)
    odds = np.log(draws[..., 1:] / draws[..., :1])
    contrasts = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    mean, covariance = posterior.output_moments(x)
    root = np.linalg.cholesky(
        np.linalg.inv(contrasts @ covariance @ contrasts.T)
    )
    whitened = np.einsum("snd,nde->sne", odds - mean @ contrasts.T, root)
    whitened = whitened.reshape(-1, 2)
    # Standard errors of 80000 draws: 0.0035, and 0.005 of a variance.
    np.testing.assert_allclose(whitened.mean(axis=0), 0.0, atol=0.02)
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(2), atol=0.03)


@pytest.mark.parametrize("method", ["mc", "linearized"])
def test_the_average_is_that_of_the_draws(rng, method):
    posterior, x = fit(rng)
    draws = posterior.predict(x, method, 5, seed=3)
    average = posterior.predict(x, method, 5, seed=3, average=True)
    assert average.shape == (1, 40, 3)
    np.testing.assert_allclose(average[0], draws.mean(axis=0))


@pytest.mark.parametrize("hessian", HESSIANS)
def test_closed_forms_are_those_of_the_moments_of_the_outputs(rng, hessian):
    posterior, x = fit(rng, hessian)
    mean, covariance = posterior.output_moments(x)
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(
        posterior.predict(x, "probit")[0],
        scipy.special.softmax(shrink(mean, variance), axis=-1),
    )
    odds = shrink(
        mean[:, :, np.newaxis] - mean[:, np.newaxis],
        variance[:, :, np.newaxis] + variance[:, np.newaxis] - 2 * covariance,
    )
    probs = 1.0 / np.exp(-odds).sum(axis=-1)
    np.testing.assert_allclose(
        posterior.predict(x, "mean_field")[0],
        probs / probs.sum(axis=-1, keepdims=True),
    )


@pytest.mark.parametrize("method", ["probit", "mean_field"])
def test_one_output_is_shrunk_by_its_variance(rng, method):
    model, x, y = trained_models.logistic_regression(rng, 0.1)
    posterior = laplace.LastLayerLaplace(
        model, "classification", prior_precision=0.1
    ).fit(x, y, verbose=0)
    mean, covariance = posterior.output_moments(x)
    expected = scipy.special.expit(shrink(mean[:, 0], covariance[:, 0, 0]))
    (found,) = posterior.predict(x, method)
    np.testing.assert_allclose(found[:, 1], expected)
    np.testing.assert_allclose(found[:, 0], 1.0 - expected)


@pytest.mark.parametrize("hessian", HESSIANS)
def test_blocks_of_examples_change_no_moments(rng, hessian, monkeypatch):
    posterior, x = fit(rng, hessian)

    def found():
        return (
            *posterior.output_moments(x),
            posterior.predict(x, "probit"),
            posterior.predict(x, "mean_field"),
        )

    whole = found()
    # 7 examples for "full", and more for the others.
    monkeypatch.setattr("tfp_refine.laplace.predictives._MAX_NUMBERS", 7 * 45)
    for block, expected in zip(found(), whole, strict=True):
        np.testing.assert_allclose(block, expected)


def test_linearized_draws_differ_between_examples(rng, monkeypatch):
    posterior, x = fit(rng)
    monkeypatch.setattr("tfp_refine.laplace.predictives._MAX_NUMBERS", 7 * 45)
    (draw,) = posterior.predict(np.repeat(x[:1], 20, axis=0), "linearized", 1)
    assert len(np.unique(draw, axis=0)) == 20


def test_blocks_of_draws_change_nothing(rng, monkeypatch):
    posterior, x = fit(rng)
    whole = posterior.predict(x, num_samples=7, seed=1)
    # Two draws and 5 examples at a time, of 7 and 38.
    monkeypatch.setattr(
        "tfp_refine.posteriors.weight_posterior._MAX_NUMBERS", 2 * 15
    )
    blocks = posterior.predict(x[:38], num_samples=7, seed=1)
    np.testing.assert_allclose(blocks, whole[:, :38])
    (average,) = posterior.predict(x[:38], num_samples=7, seed=1, average=True)
    np.testing.assert_allclose(average, whole[:, :38].mean(axis=0))


def test_outputs_without_variance_are_sure():
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(3, use_bias=False)]
    )
    x = np.eye(2)[np.arange(12) % 2]
    posterior = laplace.LastLayerLaplace(model, "classification").fit(
        x, np.arange(12) % 3, verbose=0
    )
    for method in laplace.PREDICTIVES:
        probs = posterior.predict(np.zeros((1, 2)), method, seed=0)
        np.testing.assert_allclose(probs, 1.0 / 3.0, rtol=1e-6)


def test_predictions_that_overflow_are_told(rng):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    x = rng.normal(size=(12, 2))
    posterior = laplace.LastLayerLaplace(
        model, "classification", prior_precision=1e-40
    ).fit(x, np.arange(12) % 3, verbose=0)
    posterior.prior_precision = 1e-80  # of float32, not of float64
    with pytest.raises(ValueError, match="Predictions must be finite"):
        posterior.predict(1e10 * x, seed=0)


def test_targets_alone_do_not_refine(rng):
    posterior, _ = fit(rng)
    with pytest.raises(ValueError, match="`y` needs `x`"):
        posterior.refine(None, np.zeros(40))
