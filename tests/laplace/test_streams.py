"""Laplace's approximation of data that memory does not hold."""

import keras
import numpy as np
import pytest

import tfp_refine
from tests.support import small_streams
from tests.support import trained_models
from tfp_refine import laplace
from tfp_refine import sampling
from tfp_refine.functional import streams

KINDS = {
    "full": (laplace.LastLayerLaplace, {"hessian": "full"}),
    "kron": (laplace.LastLayerLaplace, {"hessian": "kron"}),
    "diag": (laplace.LastLayerLaplace, {"hessian": "diag"}),
    "all layers": (laplace.DiagonalLaplace, {}),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Blocks of a few examples, in double precision."""
    small_streams.shrink(monkeypatch, block_bytes=100, window_bytes=300)
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


def problem(likelihood, rng):
    if likelihood == "regression":
        return trained_models.ridge_regression(rng, 0.5, 1.0)
    return trained_models.classifier(rng, count=30)


def fit(kind, likelihood, model, *data, **given):
    make, options = KINDS[kind]
    made = make(model, likelihood, prior_precision=0.3, **options)
    return made.fit(*data, verbose=0, **given)


def assert_close(found, expected):
    np.testing.assert_allclose(
        found.hessian.eigenvalues, expected.hessian.eigenvalues, rtol=1e-10,
        atol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(
        found.log_marginal_likelihood(),
        expected.log_marginal_likelihood(),
        rtol=1e-12,
    )
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "likelihood", "weighted"),
    [
        pytest.param(
            kind,
            likelihood,
            weighted,
            marks=[pytest.mark.slow] * ((i + j + weighted) % 2),
        )
        for i, kind in enumerate(KINDS)
        for j, likelihood in enumerate(["classification", "regression"])
        for weighted in (False, True)
    ],
)
def test_a_stream_gives_what_arrays_give(kind, likelihood, weighted, rng):
    model, x, y = problem(likelihood, rng)
    weight = [rng.integers(0, 3, 30)] if weighted else []
    given = dict(zip(["sample_weight"], weight, strict=False))
    expected = fit(kind, likelihood, model, x, y, **given)
    found = fit(kind, likelihood, model, small_streams.Batches(x, y, *weight))
    assert isinstance(found.training_data, streams.Stream)
    assert_close(found, expected)
    # The bound computes anew rows not held; signs of vectors may differ.
    for posterior in (found, expected):
        posterior.covariance = expected.covariance
    np.testing.assert_allclose(found.elbo(3), expected.elbo(3), rtol=1e-10)


@pytest.mark.slow
def test_features_are_held_if_they_are_small(monkeypatch, rng):
    # Features and targets take 5 * 8 + 4 bytes.
    model, x, y = problem("classification", rng)
    x = np.concatenate([x, np.zeros((30, 8))], axis=1)
    wide = keras.Sequential(
        [
            keras.Input((10,)),
            keras.layers.Lambda(lambda x: x[:, :2]),
            *model.layers[1:],
        ]
    )
    data = small_streams.Batches(x, y)
    for bytes_held, kind in ((1400, tuple), (1200, streams.Stream)):
        monkeypatch.setattr(streams, "HELD_BYTES", bytes_held)
        found = fit("full", "classification", wide, data)
        assert isinstance(found.training_data, kind)
        assert_close(found, fit("full", "classification", wide, x, y))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["full", pytest.param("all layers", marks=pytest.mark.slow)]
)
def test_flows_are_trained_on_windows(kind, rng):
    model, x, y = problem("classification", rng)
    given = {
        "epochs": 60, "batch_size": 10, "flow_length": 1, "seed": 1,
        "verbose": 0,
    }  # fmt: skip
    arrays, stream = (
        fit(kind, "classification", model, *data).refine(**given)
        for data in ((x, y), (small_streams.Batches(x, y),))
    )
    assert isinstance(stream.training_data, streams.Stream)
    first, last = np.mean(stream.history["elbo"].reshape(2, -1), axis=1)
    assert last > first
    np.testing.assert_allclose(
        np.mean(stream.elbo(200)), np.mean(arrays.elbo(200)), atol=0.3
    )


def test_data_are_given_again(rng, tmp_path):
    model, x, y = problem("classification", rng)
    found = fit("diag", "classification", model, small_streams.Batches(x, y))
    found.save(tmp_path / "laplace.posterior")
    loaded = tfp_refine.load_posterior(tmp_path / "laplace.posterior")
    loaded.set_data(small_streams.Batches(x, y, size=7))
    np.testing.assert_allclose(loaded.elbo(3), found.elbo(3), rtol=1e-12)


def test_chains_need_data_in_memory(rng):
    model, x, y = problem("classification", rng)
    found = fit("full", "classification", model, small_streams.Batches(x, y))
    with pytest.raises(ValueError, match="must fit in memory.*30 examples"):
        sampling.nuts(found, seed=1, verbose=0)


@pytest.mark.parametrize("kind", ["full", "all layers"])
def test_bad_data_of_any_block_are_refused_before_the_work(kind, rng):
    model, x, y = problem("classification", rng)
    wrong = np.where(np.arange(30) == 29, 3, y)
    with pytest.raises(ValueError, match="labels|class"):
        fit(kind, "classification", model, small_streams.Batches(x, wrong))
    data = small_streams.Batches(x, y, np.ones((30, 2)))
    with pytest.raises(ValueError, match="one number for each example"):
        fit(kind, "classification", model, data)


def test_a_stream_that_ends_early_later_on_is_refused(rng):
    model, x, y = problem("classification", rng)
    data = small_streams.Batches(
        x, y, rows=lambda number: np.arange(30 - (number > 1))
    )
    with pytest.raises(ValueError, match="30 examples, and later 29"):
        fit("full", "classification", model, data)
