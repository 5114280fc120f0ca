"""Laplace's approximation of examples that count more or less than once."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine
from tests.support import trained_models
from tfp_refine import laplace
from tfp_refine import sampling
from tfp_refine.posteriors import covariances

KINDS = {
    "full": (laplace.LastLayerLaplace, {"hessian": "full"}),
    "kron": (laplace.LastLayerLaplace, {"hessian": "kron"}),
    "diag": (laplace.LastLayerLaplace, {"hessian": "diag"}),
    "all layers": (laplace.DiagonalLaplace, {}),
}


@pytest.fixture(autouse=True)
def _double():
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


def problem(likelihood, rng):
    if likelihood == "regression":
        return trained_models.ridge_regression(rng, 0.5, 1.0)
    num_classes = {"classification": 3, "two classes": 2}[likelihood]
    model, x, y = trained_models.classifier(rng, num_classes, count=30)
    if num_classes == 2:
        head = keras.layers.Dense(1, dtype="float64")
        model = keras.Model(model.inputs, head(model.layers[1].output))
    return model, x, y


def fit(kind, likelihood, model, *data, **given):
    make, options = KINDS[kind]
    name = "regression" if likelihood == "regression" else "classification"
    made = make(model, name, prior_precision=0.3, noise_scale=0.7, **options)
    return made.fit(*data, verbose=0, **given)


def precision(posterior):
    covariance = posterior.covariance
    if isinstance(covariance, covariances.Diagonal):
        return covariance.scale**-2
    return covariance.matrix(-2)


def numbers(posterior):
    """Returns all that follows from data and their weights."""
    found = {
        "precision": precision(posterior),
        "evidence": posterior.log_marginal_likelihood(),
    }
    if not isinstance(posterior.covariance, covariances.Full):  # whose signs
        found["bound"] = posterior.elbo(3, seed=1)
    posterior.optimize_prior_precision()
    return found | {
        "prior": posterior.prior_precision,
        "noise": posterior.noise_scale,
        "best evidence": posterior.log_marginal_likelihood(),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "likelihood", ["classification", "two classes", "regression"]
)
def test_whole_weights_are_repeated_examples(kind, likelihood, rng):
    model, x, y = problem(likelihood, rng)
    weight = rng.integers(0, 4, 30)
    rows = np.repeat(np.arange(30), weight)
    weighted = fit(kind, likelihood, model, x, y, sample_weight=weight)
    repeated = fit(kind, likelihood, model, x[rows], y[rows])
    once = precision(fit(kind, likelihood, model, x, y))
    assert not np.allclose(precision(weighted), once)
    expected = numbers(repeated)
    for name, value in numbers(weighted).items():
        np.testing.assert_allclose(
            value, expected[name], rtol=1e-6, atol=1e-9, err_msg=name
        )


@pytest.mark.parametrize(
    ("kind", "likelihood"),
    [
        pytest.param(kind, likelihood, marks=[pytest.mark.slow] * ((i + j) % 2))
        for i, kind in enumerate(KINDS)
        for j, likelihood in enumerate(["classification", "regression"])
    ],
)
def test_weights_of_one_change_nothing_bit_for_bit(kind, likelihood, rng):
    model, x, y = problem(likelihood, rng)
    ones = fit(kind, likelihood, model, x, y, sample_weight=np.ones(30))
    expected = numbers(fit(kind, likelihood, model, x, y))
    for name, value in numbers(ones).items():
        np.testing.assert_array_equal(value, expected[name], name)


def test_class_weights_and_datasets_are_other_ways_to_say_the_same(rng):
    model, x, y = problem("classification", rng)
    weight = np.array([1.0, 0.5, 2.0])[y]
    dataset = tf.data.Dataset.from_tensor_slices((x, y, weight)).batch(7)
    expected, *others = (
        fit("full", "classification", model, *given, **weights)
        for given, weights in (
            ((x, y), {"sample_weight": weight}),
            ((x, y), {"class_weight": {1: 0.5, 2: 2.0}}),
            ((dataset,), {}),
        )
    )
    for other in others:
        np.testing.assert_array_equal(precision(other), precision(expected))
        np.testing.assert_array_equal(
            other.training_data[2], expected.training_data[2]
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The chains have not mixed")
@pytest.mark.filterwarnings("ignore:.* transitions diverged")
def test_what_starts_from_it_keeps_the_weights(rng, tmp_path):
    model, x, y = problem("classification", rng)
    weight = rng.integers(0, 4, 30)
    rows = np.repeat(np.arange(30), weight)
    weighted = fit("diag", "classification", model, x, y, sample_weight=weight)
    repeated = fit("diag", "classification", model, x[rows], y[rows])
    flows, chains, elbos = [], [], []
    for posterior in (weighted, repeated):
        flow = posterior.refine(
            epochs=30, batch_size=100, flow_length=1, seed=1, verbose=0
        )
        flows.append(flow.history["elbo"])
        elbos.append(flow.elbo(10, seed=2).mean())
        found = sampling.nuts(
            posterior,
            num_chains=2,
            num_warmup=2,
            num_samples=4,
            jit_compile=False,
            seed=1,
            verbose=0,
        )
        chains.append(found.sample(8, seed=1))
    np.testing.assert_allclose(flows[0], flows[1], rtol=1e-4)
    np.testing.assert_allclose(elbos[0], elbos[1], rtol=1e-4)
    np.testing.assert_allclose(chains[0], chains[1], rtol=1e-6)
    # A file holds none of the data: they are given again.
    path = tmp_path / "laplace.posterior"
    expected = weighted.elbo(3)
    weighted.save(path)
    loaded = tfp_refine.load_posterior(path)
    assert loaded.log_marginal_likelihood() == (
        weighted.log_marginal_likelihood()
    )
    loaded.set_data(x, y, sample_weight=weight)
    np.testing.assert_allclose(loaded.elbo(3), expected)
    again = weighted.refine(
        x, y, epochs=1, batch_size=100, flow_length=1, seed=1, verbose=0
    )
    assert len(again.training_data) == 2
    with pytest.raises(ValueError, match="`sample_weight` needs `x`"):
        weighted.refine(sample_weight=weight)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["classification", "regression"])
def test_validation_data_may_have_weights(likelihood, rng):
    model, x, y = problem(likelihood, rng)
    weight = rng.integers(0, 4, 30)
    rows = np.repeat(np.arange(30), weight)
    posterior = fit("full", likelihood, model, x, y)
    posterior.noise_scale = 0.4  # so that the best precision is in the grid
    found = [
        posterior.optimize_prior_precision(
            "grid_search", validation_data=data, predictive="probit", verbose=0
        )
        for data in ((x, y, weight), (x[rows], y[rows]), (x, y))
    ]
    assert found[0] == found[1] != found[2]


def test_weights_of_positions_are_refused(rng):
    model, x, y = problem("classification", rng)
    with pytest.raises(ValueError, match=r"one number for each .*\(30, 2\)"):
        fit("full", "", model, x, y, sample_weight=np.ones((30, 2)))
