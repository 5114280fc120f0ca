import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfp_refine
from tests.support import statistics
from tests.support import trained_models
from tfp_refine import laplace
from tfp_refine.laplace import predictives


def fit(model, x, y, hessian="full", kind="classification", **arguments):
    posterior = laplace.LastLayerLaplace(model, kind, hessian, **arguments)
    return posterior.fit(x, y, verbose=0)


@pytest.fixture(autouse=True)
def _double():
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


def exact_hessian(model, x, y, use_bias=True):
    """Differentiates the loss of the model in its last layer's weights."""
    layer = model.layers[-1]
    features = model.layers[1](x)
    kernel, *bias = [tf.constant(w) for w in layer.get_weights()]
    theta = tf.transpose(kernel)
    if use_bias:
        theta = tf.concat([theta, bias[0][:, tf.newaxis]], axis=1)
    theta = tf.reshape(theta, [-1])

    def loss(theta):
        rows = tf.reshape(theta, [layer.units, -1])
        logits = tf.matmul(features, rows[:, :4], transpose_b=True)
        if use_bias:
            logits += rows[:, 4]
        return tf.reduce_sum(
            keras.losses.sparse_categorical_crossentropy(
                y, logits, from_logits=True
            )
        )

    with tf.GradientTape() as outer:
        outer.watch(theta)
        with tf.GradientTape() as inner:
            inner.watch(theta)
            value = loss(theta)
        gradient = inner.gradient(value, theta)
    return outer.jacobian(gradient, theta).numpy()


@pytest.mark.parametrize("use_bias", [True, False])
def test_the_precision_is_the_exact_hessian_and_the_prior(rng, use_bias):
    model, x, y = trained_models.classifier(rng, use_bias=use_bias)
    posterior = fit(model, x, y, prior_precision=0.3)
    hessian = exact_hessian(model, x, y, use_bias)
    np.testing.assert_allclose(
        posterior.covariance.matrix(-2),
        hessian + 0.3 * np.eye(len(hessian)),
        atol=1e-10,
    )
    np.testing.assert_allclose(
        posterior.covariance.matrix() @ posterior.covariance.matrix(-2),
        np.eye(len(hessian)),
        atol=1e-9,
    )
    diagonal = fit(model, x, y, "diag", prior_precision=0.3)
    np.testing.assert_allclose(
        np.diag(diagonal.covariance.matrix(-2)), np.diag(hessian) + 0.3
    )


def test_kron_is_exact_for_a_single_example(rng):
    model, x, y = trained_models.classifier(rng, count=1)
    full, kron = (fit(model, x, y, hessian) for hessian in ("full", "kron"))
    np.testing.assert_allclose(
        kron.covariance.matrix(-2), full.covariance.matrix(-2), atol=1e-10
    )


def test_kron_is_another_for_several_examples(rng):
    model, x, y = trained_models.classifier(rng)
    full, kron = (fit(model, x, y, hessian) for hessian in ("full", "kron"))
    difference = kron.covariance.matrix(-2) - full.covariance.matrix(-2)
    assert np.abs(difference).max() > 0.1


@pytest.mark.parametrize("hessian", ["full", "kron", "diag"])
def test_draws_have_the_moments_of_the_posterior(rng, hessian):
    model, x, y = trained_models.classifier(rng)
    posterior = fit(model, x, y, hessian)
    draws = posterior.sample(100000, seed=0)
    root = np.linalg.cholesky(posterior.covariance.matrix(-2))
    whitened = (draws - posterior.loc) @ root
    statistics.assert_mean(whitened, 0.0, 1.0, resolves=0.05)
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(15), atol=0.03)


@pytest.mark.parametrize("hessian", ["full", "kron", "diag"])
def test_the_bijector_makes_the_weights_and_undoes_it(rng, hessian):
    model, x, y = trained_models.classifier(rng)
    posterior = fit(model, x, y, hessian)
    z = tf.constant(rng.normal(size=(4, 15)))
    theta = posterior.bijector.forward(z)
    np.testing.assert_array_equal(theta, posterior.transform(z))
    np.testing.assert_allclose(
        posterior.bijector.inverse(tf.identity(theta)), z, atol=1e-10
    )
    _, log_det = np.linalg.slogdet(posterior.covariance.matrix())
    np.testing.assert_allclose(
        posterior.bijector.forward_log_det_jacobian(z, 1), 0.5 * log_det
    )


@pytest.mark.parametrize("hessian", ["full", "kron", "diag"])
def test_outputs_have_the_moments_of_the_weights(rng, hessian):
    model, x, y = trained_models.classifier(rng)
    posterior = fit(model, x, y, hessian)
    features = model.layers[1](x)
    design = np.concatenate([features, np.ones((len(x), 1))], axis=1)
    jacobian = np.stack([np.kron(np.eye(3), row) for row in design])
    mean, covariance = posterior.linearized_outputs(x)
    np.testing.assert_allclose(mean, model(x))
    np.testing.assert_allclose(
        covariance,
        jacobian
        @ posterior.covariance.matrix()
        @ np.transpose(jacobian, [0, 2, 1]),
        atol=1e-10,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "hessian",
    [
        "full",
        pytest.param("kron", marks=pytest.mark.slow),
        pytest.param("diag", marks=pytest.mark.slow),
    ],
)
def test_linearized_and_weight_draws_agree(rng, hessian):
    model, x, y = trained_models.classifier(rng)
    posterior = fit(model, x[:5], y[:5], hessian)
    means = [
        posterior.predict_proba(x[:5], 8000, method=method, seed=1)
        for method in ("mc", "linearized")
    ]
    assert means[0].shape == means[1].shape == (5, 3)
    # Standard errors are at most 0.5 / sqrt(8000): six of the difference.
    np.testing.assert_allclose(*means, atol=6 * 0.5 * np.sqrt(2 / 8000))
    # The average of the draws of this seed.
    logits = posterior.predict(x[:5], 200, seed=1)
    np.testing.assert_allclose(
        posterior.predict_proba(x[:5], 200, method="mc", seed=1),
        np.mean(tf.nn.softmax(logits), axis=0),
        atol=1e-6,
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["probit", "mean_field"])
def test_closed_forms_are_probabilities_near_the_exact_ones(rng, method):
    model, x, y = trained_models.classifier(rng)
    posterior = fit(model, x, y)
    exact = posterior.predict_proba(x, 5000, seed=1)
    found = posterior.predict_proba(x, method=method)
    np.testing.assert_allclose(found.sum(axis=-1), 1.0)
    assert 0.0 < np.abs(found - exact).max() < 0.15


@pytest.mark.parametrize("method", predictives.PREDICTIVES)
def test_a_certain_posterior_predicts_as_the_model(rng, method):
    model, x, y = trained_models.classifier(rng, activation="softmax")
    posterior = fit(model, x, y, prior_precision=1e12)
    found = posterior.predict_proba(x, 3, method=method, seed=0)
    np.testing.assert_allclose(found, model(x), atol=1e-4)


@pytest.mark.slow
def test_one_output_is_the_logit_of_the_second_class(rng):
    model, x, y = trained_models.logistic_regression(rng, 0.1)
    posterior = fit(model, x, y, prior_precision=0.1)
    exact = posterior.predict_proba(x, 20000, seed=1)
    assert exact.shape == (50, 2)
    for method in ("probit", "mean_field"):
        found = posterior.predict_proba(x, method=method)
        np.testing.assert_allclose(found, exact, atol=0.017 + 0.015)
    np.testing.assert_array_equal(exact[:, 1] > 0.5, model(x)[:, 0] > 0)


@pytest.mark.parametrize("activation", [None, "softmax"])
def test_predict_draws_what_the_model_returns(rng, activation):
    model, x, y = trained_models.classifier(rng, activation=activation)
    posterior = fit(model, x, y, prior_precision=1e12)
    draws = tfp_refine.predict(posterior, x, 2, seed=0)
    assert draws.shape == (2, 40, 3)
    np.testing.assert_allclose(draws[0], model(x), atol=1e-4)


def test_the_evidence_of_a_linear_regression_is_exact(rng):
    model, x, y = trained_models.ridge_regression(rng, 0.7, 2.0)
    posterior = fit(
        model, x, y, kind="regression", prior_precision=2.0, noise_scale=0.7
    )
    design = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    covariance = design @ design.T / 2.0 + 0.7**2 * np.eye(len(x))
    expected = sum(
        scipy.stats.multivariate_normal.logpdf(column, cov=covariance)
        for column in y.T
    )
    np.testing.assert_allclose(
        posterior.log_marginal_likelihood(), expected, rtol=1e-10
    )
    # And so the bound is no bound, but the evidence, for every draw.
    np.testing.assert_allclose(posterior.elbo(10), expected, rtol=1e-8)


@pytest.mark.parametrize("hessian", ["full", "kron", "diag"])
def test_the_best_precision_is_the_fixed_point(rng, hessian):
    model, x, y = trained_models.classifier(rng)
    posterior = fit(model, x, y, hessian)
    best = posterior.optimize_prior_precision()
    assert best == posterior.prior_precision
    eigenvalues = np.linalg.eigvalsh(
        posterior.covariance.matrix(-2) - best * np.eye(15)
    )
    determined = np.sum(eigenvalues / (eigenvalues + best))
    np.testing.assert_allclose(
        best, determined / np.sum(posterior.loc**2), rtol=1e-6
    )
    at_best = posterior.log_marginal_likelihood()
    for factor in (0.9, 1.1):
        assert posterior.log_marginal_likelihood(best * factor) < at_best


def test_the_best_noise_has_the_greatest_evidence(rng):
    model, x, y = trained_models.ridge_regression(rng, 0.7, 2.0)
    posterior = fit(model, x, y, kind="regression", noise_scale=5.0)
    posterior.optimize_prior_precision()
    best = posterior.log_marginal_likelihood()
    for prior, noise in ((1.02, 1.0), (0.98, 1.0), (1.0, 1.02), (1.0, 0.98)):
        assert best > posterior.log_marginal_likelihood(
            posterior.prior_precision * prior, posterior.noise_scale * noise
        )
    assert 0.5 < posterior.noise_scale < 1.0


def test_a_grid_search_finds_the_least_loss_and_survives_infinities(rng):
    model, x, y = trained_models.classifier(rng, count=1)
    posterior = fit(model, x, y)
    # So uncertain that a class gets probability 0 in all of few draws.
    grid = [1e-30, 0.1, 1.0, 10.0]
    validation = (rng.normal(size=(30, 2)), rng.integers(0, 3, 30))
    best = posterior.optimize_prior_precision(
        "grid_search",
        validation_data=validation,
        grid=grid,
        num_samples=2,
        verbose=0,
    )
    losses = {}
    for precision in grid:
        posterior.prior_precision = precision
        probs = posterior.predict_proba(validation[0], 2, seed=0)
        chosen = probs[np.arange(30), validation[1]]
        with np.errstate(divide="ignore"):
            losses[precision] = -np.mean(np.log(chosen))
    assert np.isinf(losses[1e-30])
    assert best == min(losses, key=losses.get)
    with pytest.raises(ValueError, match="infinite for all"):
        posterior.optimize_prior_precision(
            "grid_search",
            validation_data=validation,
            grid=[1e-30],
            num_samples=1,
            verbose=0,
        )
    assert posterior.prior_precision == 10.0


@pytest.mark.slow
@pytest.mark.parametrize("hessian", ["full", "kron", "diag"])
def test_a_saved_posterior_is_the_same(rng, tmp_path, hessian):
    model, x, y = trained_models.classifier(rng)
    posterior = fit(model, x, y, hessian, prior_precision=0.7)
    posterior.save(tmp_path / "laplace.posterior")
    loaded = tfp_refine.load_posterior(tmp_path / "laplace.posterior", model)
    assert loaded.log_marginal_likelihood() == (
        posterior.log_marginal_likelihood()
    )
    np.testing.assert_array_equal(
        loaded.predict(x, seed=1), posterior.predict(x, seed=1)
    )
    with pytest.raises(ValueError, match="not saved"):
        loaded.elbo()
    np.testing.assert_array_equal(
        loaded.set_data(x, y).elbo(), posterior.elbo()
    )


def test_a_model_of_other_weights_is_refused(rng, tmp_path):
    model, x, y = trained_models.classifier(rng)
    fit(model, x, y).save(tmp_path / "laplace.posterior")
    model.layers[1].kernel.assign_add(np.ones((2, 4)))
    with pytest.raises(ValueError, match="another model"):
        tfp_refine.load_posterior(tmp_path / "laplace.posterior", model)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"likelihood": "poisson"}, "likelihood"),
        ({"hessian": "exact"}, "hessian"),
        ({"prior_precision": 0.0}, "prior_precision"),
        ({"prior_precision": -1.0}, "prior_precision"),
        ({"noise_scale": 0.0}, "noise_scale"),
    ],
)
def test_bad_arguments_are_named(rng, arguments, message):
    model, _, _ = trained_models.classifier(rng)
    with pytest.raises(ValueError, match=message):
        laplace.LastLayerLaplace(
            model, **({"likelihood": "classification"} | arguments)
        )


def test_bad_data_are_named(rng):
    model, x, y = trained_models.classifier(rng)
    posterior = laplace.LastLayerLaplace(model, "classification")
    with pytest.raises(ValueError, match="fit"):
        posterior.sample(1)
    with pytest.raises(ValueError, match=r"\[0, 3\)"):
        posterior.fit(x, y + 1, verbose=0)
    with pytest.raises(ValueError, match="finite"):
        posterior.fit(np.full_like(x, np.nan), y, verbose=0)
    with pytest.raises(ValueError, match="shape"):
        posterior.fit(x[:, :1], y, verbose=0)
    model.layers[1].kernel.assign(np.full((2, 4), np.nan))
    with pytest.raises(ValueError, match="NaN"):
        posterior.fit(x, y, verbose=0)


def test_closed_forms_are_refused_for_a_regression(rng):
    model, x, y = trained_models.ridge_regression(rng, 0.7, 2.0)
    posterior = fit(model, x, y, kind="regression")
    for method in predictives.PREDICTIVES:
        with pytest.raises(ValueError, match="use `predict` for a regression"):
            posterior.predict_proba(x, method=method)


def test_the_moments_of_a_regression_are_those_of_new_targets(rng):
    model, x, y = trained_models.ridge_regression(rng, 0.7, 2.0)
    posterior = fit(model, x, y, kind="regression", noise_scale=0.7)
    mean, covariance = posterior.predict_moments(x)
    of_outputs = posterior.linearized_outputs(x)
    np.testing.assert_array_equal(mean, of_outputs[0])
    np.testing.assert_allclose(
        covariance - of_outputs[1],
        0.49 * np.eye(2) + np.zeros((30, 2, 2)),
        atol=1e-12,
    )
    draws = posterior.predict(x[:1], 50000, seed=1)[:, 0]
    statistics.assert_mean(
        draws - mean[0], 0.0, np.sqrt(np.diag(of_outputs[1][0])), resolves=0.05
    )
    model, x, y = trained_models.classifier(rng)
    with pytest.raises(ValueError, match="is for regression"):
        fit(model, x, y).predict_moments(x)


def test_a_hessian_that_is_not_definite_is_refused(rng, monkeypatch):
    model, x, y = trained_models.classifier(rng)
    posterior = laplace.LastLayerLaplace(model, "classification")
    monkeypatch.setattr(
        "tfp_refine.math.gauss_newton.full",
        lambda features, hessian: -tf.eye(15, dtype=tf.float64),
    )
    with pytest.raises(ValueError, match=r"(?s)Hessian.*positive"):
        posterior.fit(x, y, verbose=0)


def test_kron_is_the_factor_of_outputs_and_the_mean_of_features(rng):
    model, x, y = trained_models.classifier(rng)
    posterior = fit(model, x, y, "kron", prior_precision=0.3)
    probs = tf.nn.softmax(model(x)).numpy()
    of_outputs = np.diag(probs.sum(axis=0)) - probs.T @ probs
    design = np.concatenate([model.layers[1](x), np.ones((40, 1))], axis=1)
    np.testing.assert_allclose(
        posterior.covariance.matrix(-2),
        np.kron(of_outputs, design.T @ design / 40) + 0.3 * np.eye(15),
        atol=1e-10,
    )


@pytest.mark.slow
@pytest.mark.parametrize("hessian", ["full", "kron", "diag"])
def test_blocks_of_examples_change_nothing(rng, hessian, monkeypatch):
    model, x, y = trained_models.classifier(rng)
    whole = fit(model, x, y, hessian)
    bound = whole.elbo(5)
    room = "tfp_refine.laplace"
    # 7 examples for "full" and 21 for the others: the last block is smaller.
    monkeypatch.setattr(f"{room}.laplace._MAX_NUMBERS", 7 * 24)
    monkeypatch.setattr("tfp_refine.posteriors.evidence_bound._MAX_ROWS", 7)
    blocks = fit(model, x, y, hessian)
    np.testing.assert_allclose(
        blocks.covariance.matrix(-2), whole.covariance.matrix(-2), atol=1e-10
    )
    np.testing.assert_allclose(
        blocks.log_marginal_likelihood(), whole.log_marginal_likelihood()
    )
    np.testing.assert_allclose(whole.elbo(5), bound)


def test_fitting_again_forgets_the_first_data(rng):
    model, x, y = trained_models.classifier(rng)
    posterior = fit(model, x[:10], y[:10]).fit(x, y, verbose=0)
    anew = fit(model, x, y)
    assert posterior.log_marginal_likelihood() == anew.log_marginal_likelihood()
    np.testing.assert_array_equal(posterior.elbo(3), anew.elbo(3))


def test_seeds_fix_draws_and_the_bound(rng):
    model, x, y = trained_models.classifier(rng)
    posterior = fit(model, x, y)
    for function in (
        lambda seed: posterior.sample(2, seed=seed),
        lambda seed: posterior.elbo(2, seed=seed),
        lambda seed: posterior.predict(x, 2, seed=seed),
        lambda seed: posterior.predict_proba(
            x, 2, method="linearized", seed=seed
        ),
    ):
        np.testing.assert_array_equal(function(1), function(1))
        assert (function(1) != function(2)).any()
        assert (function(None) != function(None)).any()


def test_nothing_is_written_if_silent(rng, capsys):
    model, x, y = trained_models.classifier(rng)
    posterior = fit(model, x, y)
    assert capsys.readouterr().err == ""
    posterior.fit(x, y, verbose=1)
    assert "40 examples" in capsys.readouterr().err


def test_bad_values_are_named_and_change_nothing(rng):
    model, x, y = trained_models.ridge_regression(rng, 0.7, 2.0)
    posterior = fit(model, x, y, kind="regression")
    for name in ("prior_precision", "noise_scale"):
        for value in (0.0, -1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match=f"`{name}`"):
                setattr(posterior, name, value)
            with pytest.raises(ValueError, match=f"`{name}`"):
                posterior.log_marginal_likelihood(**{name: value})
        assert getattr(posterior, name) == 1.0
    with pytest.raises(ValueError, match="`num_samples`"):
        posterior.predict(x, 0)
    model, x, y = trained_models.classifier(rng)
    for method in ("mc", "linearized"):
        with pytest.raises(ValueError, match="`num_samples`"):
            fit(model, x, y).predict_proba(x, 0, method=method)


@pytest.mark.parametrize("hessian", ["full", "kron", "diag"])
def test_features_that_are_too_large_are_named(hessian):
    model = keras.Sequential(
        [
            keras.Input((2,), dtype="float64"),
            keras.layers.Dense(2, kernel_initializer="zeros", dtype="float64"),
        ]
    )
    with pytest.raises(ValueError, match="features.*too large"):
        fit(model, 1e160 * np.eye(2), np.arange(2), hessian)


def test_a_full_hessian_that_does_not_fit_is_refused(rng, monkeypatch):
    model, x, y = trained_models.classifier(rng)
    monkeypatch.setattr("tfp_refine.laplace.last_layer_laplace._MAX_FULL", 14)
    with pytest.raises(ValueError, match='15 x 15.*"kron" or "diag"'):
        fit(model, x, y)
    fit(model, x, y, "kron")
