"""Laplace's approximation of labels that do not exclude each other."""

import keras
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import tensorflow as tf

import tfp_refine
from tests.support import trained_models
from tfp_refine import ensembles
from tfp_refine import laplace
from tfp_refine import losses
from tfp_refine import sampling


@pytest.fixture(autouse=True)
def _double():
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


def problem(rng, count=40, **layer):
    """Returns a model of three labels, with data."""
    model, x, _ = trained_models.classifier(rng, count=count, **layer)
    model.compile("sgd", losses.BernoulliNLL())
    return model, x, rng.integers(0, 2, (count, 3))


def fit(model, *data, hessian="full", **given):
    made = laplace.LastLayerLaplace(model, "multilabel", hessian)
    return made.fit(*data, verbose=0, **given)


def loss_of(model, x, y):
    """Returns the negative log posterior as a function of the last layer."""
    features = np.pad(model.layers[1](x), [(0, 0), (0, 1)], constant_values=1)

    def loss(theta):
        logits = tf.matmul(
            tf.constant(features),
            tf.reshape(theta, [3, -1]),
            transpose_b=True,
        )
        labels = tf.constant(y, tf.float64)
        terms = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        return tf.reduce_sum(terms) + 0.5 * tf.reduce_sum(theta**2)

    return loss


def test_the_precision_is_the_exact_hessian_and_the_prior(rng):
    model, x, y = problem(rng)
    posterior = fit(model, x, y)
    theta = tf.constant(posterior.loc)
    loss = loss_of(model, x, y)
    with tf.GradientTape() as outer:
        outer.watch(theta)
        with tf.GradientTape() as inner:
            inner.watch(theta)
            value = loss(theta)
        gradient = inner.gradient(value, theta)
    expected = outer.jacobian(gradient, theta).numpy()
    np.testing.assert_allclose(
        posterior.covariance.matrix(-2), expected, atol=1e-10
    )
    # The joint density of labels and weights, with its determinant.
    size = len(posterior.loc)
    log_joint = -value.numpy() - 0.5 * size * np.log(2 * np.pi)
    _, log_det = np.linalg.slogdet(expected / (2 * np.pi))
    np.testing.assert_allclose(
        posterior.log_marginal_likelihood(), log_joint - 0.5 * log_det
    )


@pytest.mark.parametrize(
    "activation", [None, pytest.param("sigmoid", marks=pytest.mark.slow)]
)
def test_probabilities_are_of_each_label(activation, rng):
    model, x, y = problem(rng, activation=activation)
    if activation:
        model.compile("sgd", "binary_crossentropy")
    posterior = fit(model, x, y)
    mean, covariance = posterior.linearized_outputs(x)
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    logits = mean[..., np.newaxis] + variance[..., np.newaxis] ** 0.5 * nodes
    exact = scipy.special.expit(logits) @ weights / weights.sum()
    for method, atol in (
        ("mc", 0.05),
        ("linearized", 0.05),
        ("probit", 0.03),
        ("mean_field", 0.03),
    ):
        found = posterior.predict_proba(x, 4000, method=method, seed=1)
        np.testing.assert_allclose(found, exact, atol=atol, err_msg=method)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The chains have not mixed")
def test_what_starts_from_it_knows_the_likelihood(rng, tmp_path):
    model, x, y = problem(rng)
    weight = rng.integers(0, 3, len(x))
    rows = np.repeat(np.arange(len(x)), weight)
    for kind in ("kron", "diag"):
        weighted = fit(model, x, y, hessian=kind, sample_weight=weight)
        repeated = fit(model, x[rows], y[rows], hessian=kind)
        np.testing.assert_allclose(
            weighted.optimize_prior_precision(),
            repeated.optimize_prior_precision(),
        )
    posterior = fit(model, x, y)
    posterior.optimize_prior_precision(
        "grid_search", validation_data=(x, y), grid=[0.1, 1.0, 10.0], verbose=0
    )
    flow = posterior.refine(epochs=2, flow_length=1, seed=1, verbose=0)
    chains = sampling.nuts(
        posterior, num_chains=2, num_warmup=20, num_samples=20,
        jit_compile=False, verbose=0,
    )  # fmt: skip
    for one in (posterior, flow, chains):
        path = tmp_path / "a.posterior"
        one.save(path)
        loaded = tfp_refine.load_posterior(path)
        probs = loaded.predict_proba(x, 20, seed=1)
        assert probs.shape == (40, 3)
        np.testing.assert_array_equal(probs, one.predict_proba(x, 20, seed=1))
        summary = loaded.summarize(x, 20)
        assert summary.entropy.shape == (40, 3)
    np.testing.assert_allclose(
        flow.elbo(2000).mean(),
        posterior.log_marginal_likelihood(),
        rtol=0.05,
    )


@pytest.mark.parametrize("activation", [None, "sigmoid"])
def test_one_temperature_serves_all_labels(activation, rng):
    model, x, _ = problem(rng, count=400, activation=activation)
    if activation:
        model.compile("sgd", "binary_crossentropy")
    kernel, bias = model.layers[-1].get_weights()
    logits = model.layers[1](x).numpy() @ kernel + bias
    y = rng.uniform(size=logits.shape) < scipy.special.expit(logits / 2.0)
    y = y.astype("int32")

    def loss(log_temperature):
        scaled = logits / np.exp(log_temperature)
        return np.sum(np.logaddexp(0.0, scaled) - y * scaled)

    expected = np.exp(
        scipy.optimize.minimize_scalar(loss, bracket=(-1.0, 1.0)).x
    )
    scaled = ensembles.TemperatureScaling(model).fit(x, y)
    np.testing.assert_allclose(scaled.temperature, expected, rtol=1e-4)
    np.testing.assert_allclose(
        scaled.predict_proba(x, 1),
        scipy.special.expit(logits / scaled.temperature),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(40), r"a label for each output, \(40, 3\).*\(40,\)"),
        (np.full((40, 3), 2), "labels 0 and 1.*2, 120 such"),
        (np.full((40, 3), 0.5), "labels 0 and 1.*0.5"),
    ],
)
def test_other_targets_are_refused(y, message, rng):
    model, x, _ = problem(rng)
    with pytest.raises(ValueError, match=message):
        fit(model, x, y)


def test_one_output_is_no_multilabel(rng):
    model, x, y = trained_models.classifier(rng, num_classes=1)
    with pytest.raises(ValueError, match='take "classification"'):
        fit(model, x, y)


def test_loss_weights_are_refused(rng):
    model, x, y = problem(rng)
    model.compile("sgd", losses.BernoulliNLL(), loss_weights=0.5)
    with pytest.raises(ValueError, match="loss_weights=0.5.*sample_weight"):
        fit(model, x, y)
