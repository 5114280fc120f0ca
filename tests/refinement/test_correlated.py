"""Refinement of Gaussians of correlated weights, such as Laplace's."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr
from tests.support import linear_gaussian
from tests.support import trained_models
from tfp_refine import functional
from tfp_refine import metrics
from tfp_refine.functional import streams
from tfp_refine.posteriors import covariances
from tfp_refine.refinement import starts as starts_lib

CASE = linear_gaussian.LinearGaussian()
SCALES = np.array([1.5, 0.4])
X = np.array([[1.0, -1.0], [1.0, 1.0], [1.0, 0.0]], np.float32)


def plain(dtype="float32"):
    dense = keras.layers.Dense(1, use_bias=False, dtype=dtype)
    model = keras.Sequential([keras.Input((2,), dtype=dtype), dense])
    model.compile(loss=tfr.losses.GaussianNLL(CASE.noise_scale))
    return model


def exact(prior_scale):
    """Returns the exact posterior, with its covariance, and log evidence."""
    x, y = (v.astype(np.float64) for v in (CASE.x, CASE.y))
    precision = x.T @ x + np.diag(prior_scale**-2.0)
    outputs = np.eye(len(x)) + (x * np.square(prior_scale)) @ x.T
    _, log_det = np.linalg.slogdet(2.0 * np.pi * outputs)
    evidence = -0.5 * (log_det + (y.T @ np.linalg.solve(outputs, y)).item())
    covariance = np.linalg.inv(precision)
    return covariance @ np.ravel(x.T @ y), covariance, evidence


def gaussian(kind, prior_scale):
    """Returns the exact posterior with a covariance of some class."""
    loc, covariance, _ = exact(prior_scale * np.ones(2))
    if kind is covariances.LowRank:
        factor = np.sqrt(np.abs(covariance[0, 1])) * np.array([1.0, -1.0])
        scale = np.sqrt(np.diag(covariance) - factor**2)
        found = kind(scale, factor[np.newaxis])
    else:
        values, vectors = np.linalg.eigh(covariance)
        found = kind(vectors, np.sqrt(values))
    np.testing.assert_allclose(found.matrix(), covariance, atol=1e-12)
    return tfr.posteriors.GaussianPosterior(
        functional.WeightView(plain("float64")),
        loc,
        found,
        [],
        prior_scale=prior_scale,
    )


def last_layer(hessian="full"):
    model = plain()
    model.set_weights([CASE.mean.astype(np.float32)])
    laplace = tfr.laplace.LastLayerLaplace(
        model, "regression", hessian, noise_scale=CASE.noise_scale
    )
    return laplace.fit(CASE.x, CASE.y, verbose=0)


def refine(posterior, x=CASE.x, y=CASE.y, **arguments):
    return tfr.refine(
        posterior, x, y, **{"seed": 1, "verbose": 0, "steps": 2, **arguments}
    )


@pytest.mark.parametrize(
    ("make", "prior_scale"),
    [
        pytest.param(last_layer, np.ones(2), marks=pytest.mark.slow),
        pytest.param(
            lambda: last_layer("kron"), np.ones(2), marks=pytest.mark.slow
        ),
        (lambda: gaussian(covariances.Full, SCALES), SCALES),
        pytest.param(
            lambda: gaussian(covariances.LowRank, 1.0),
            np.ones(2),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_exact_posterior_stays_so(make, prior_scale):
    """The bound of each member, whatever it draws, is the log evidence."""
    _, covariance, evidence = exact(prior_scale)
    ensemble = refine(
        make(),
        num_members=100,
        num_eval_samples=50,
        variance_ratios=(0.7, 0.7),
        learning_rate=1e-6,
        mapping="vmap",  # the fastest here
    )
    # The noise of a bound is that of 50 log likelihoods.
    for bounds in (ensemble.elbo_init, ensemble.elbo_final):
        assert abs(bounds.mean() - evidence) < 0.1
        assert bounds.std() < 0.5
    exact_variance = np.einsum("bi,ij,bj->b", X, covariance, X)
    draws = ensemble.predict(X, 4000, seed=2)[..., 0]
    weights = ensemble.sample(4000, seed=2)
    for found in (draws, weights @ X.T):
        # Those of 100 members: four standard errors are 57%.
        np.testing.assert_allclose(found.var(axis=0), exact_variance, 0.57)


@pytest.mark.slow
def test_the_basis_of_weights_themselves_is_no_basis():
    scale = np.array([0.3, 0.2])
    found, expected = (
        refine(
            tfr.posteriors.GaussianPosterior(
                functional.WeightView(plain()),
                np.ones(2, np.float32),
                covariance,
                [],
                prior_scale=2.0,
            ),
            num_members=2,
        )
        for covariance in (
            covariances.Full(np.eye(2), scale),
            covariances.Diagonal(scale),
        )
    )
    assert found.view.num_factors == 1
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-6)
    np.testing.assert_allclose(found.loc, expected.loc, rtol=1e-6)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-6)
    np.testing.assert_allclose(found.elbo_final, expected.elbo_final, 1e-5)


def test_means_and_scales_of_members_are_of_weights(tmp_path):
    ensemble = refine(last_layer(), num_members=3)
    weights = ensemble.sample(6000, seed=1)
    for member in range(3):
        own = weights[member::3]
        error = 5.0 * ensemble.scale[member] / np.sqrt(len(own))
        assert np.all(np.abs(own.mean(axis=0) - ensemble.loc[member]) < error)
        np.testing.assert_allclose(own.std(axis=0), ensemble.scale[member], 0.1)
    np.testing.assert_allclose(
        np.ravel(ensemble.member(1).get_weights()[0]), ensemble.loc[1], 1e-6
    )
    ensemble.save(tmp_path / "refined.posterior")
    loaded = tfr.load_posterior(tmp_path / "refined.posterior", ensemble.model)
    np.testing.assert_array_equal(loaded.sample(6, seed=1), weights[:6])
    np.testing.assert_array_equal(loaded.loc, ensemble.loc)


def network(seed):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(3, activation="tanh"),
            keras.layers.Dense(1),
        ]
    )
    model.compile(loss="mse")
    return tfr.laplace.LastLayerLaplace(model, "regression").fit(
        CASE.x, CASE.y, verbose=0
    )


@pytest.mark.slow
def test_several_starts_have_features_and_bases_of_their_own():
    starts = [network(1), network(2)]
    ensemble = refine(starts)
    for number, start in enumerate(starts):
        alone = refine(start, members=[number])
        np.testing.assert_allclose(
            ensemble.params[number], alone.params[0], 1e-4, 1e-5
        )
        np.testing.assert_allclose(
            ensemble.loc[number], alone.loc[0], 1e-4, 1e-5
        )
        draws = ensemble.predict(X, 2, seed=3)[number]
        inputs = start.view.inputs(X, 3)
        weights = ensemble.view.located(
            ensemble.params[number, 0], ensemble.weights_of(number)[1]
        )
        expected = start.view.outputs(weights, inputs)
        # Within some deviations of the member's outputs.
        assert np.all(np.abs(draws - expected) < 5.0 * ensemble.scale.max())


@pytest.mark.slow
def test_features_of_a_stream_are_those_of_arrays(monkeypatch):
    laplace = last_layer()
    expected = refine(laplace, num_members=1)
    monkeypatch.setattr(streams, "HELD_BYTES", 64)
    dataset = tf.data.Dataset.from_tensor_slices((CASE.x, CASE.y)).batch(6)
    found = refine(laplace, dataset, None, num_members=1)
    np.testing.assert_allclose(found.elbo_final, expected.elbo_final, 1e-3)


@pytest.mark.slow
def test_the_noise_is_that_of_the_posterior():
    model = plain()
    model.compile(loss="mse")
    laplace = tfr.laplace.LastLayerLaplace(model, "regression", noise_scale=3.0)
    laplace.fit(CASE.x, CASE.y, verbose=0)
    bound = tfr.elbo(laplace, CASE.x, CASE.y, num_samples=200, seed=1)
    expected = laplace.elbo(2000, seed=1)
    assert abs(bound - expected.mean()) < 0.5
    ensemble = refine(laplace, num_members=4, num_eval_samples=100)
    assert abs(ensemble.elbo_init.mean() - expected.mean()) < 0.5


def masked():
    inputs = keras.Input((4,), dtype="int32")
    outputs = keras.layers.Embedding(5, 3, mask_zero=True)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2)(outputs))
    model.compile(loss=tfr.losses.CategoricalNLL())
    x = np.array([[1, 2, 0, 0], [3, 4, 1, 0]])
    y = np.ones((2, 4), int)
    laplace = tfr.laplace.LastLayerLaplace(model, "classification")
    return laplace.fit(x, y, verbose=0), x, y


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (masked, "has no masks.*whose outputs are masked"),
        (
            lambda: (tfr.laplace.LastLayerLaplace(plain(), "regression"),),
            "no posterior yet",
        ),
        (lambda: ([network(1), last_layer()],), "of the same shapes"),
    ],
)
def test_what_cannot_be_refined_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        refine(*make())


def test_noise_scales_that_differ_are_refused():
    first, second = last_layer(), last_layer()
    second.noise_scale = 2.0
    with pytest.raises(ValueError, match=r"same `noise_scale`.*\[1.0, 2.0\]"):
        refine([first, second])


def test_bases_of_very_many_weights_are_refused(monkeypatch):
    monkeypatch.setattr(starts_lib, "_MAX_SIZE", 1)
    with pytest.raises(ValueError, match="eigenvectors of a matrix of 2 x 2"):
        refine(gaussian(covariances.LowRank, 1.0))


@pytest.mark.slow
def test_refined_laplace_is_nearer_to_the_posterior():
    precision = 0.01
    model, x, y = trained_models.logistic_regression(
        np.random.default_rng(0), precision
    )
    laplace = tfr.laplace.LastLayerLaplace(
        model, "classification", prior_precision=precision
    ).fit(x, y, verbose=0)
    ensemble = refine(
        laplace,
        x.astype(np.float32),
        y[:, np.newaxis].astype(np.float32),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        num_members=50,
        variance_ratios=(0.7,) * 2,
        steps=200,
        learning_rate=0.3,
        learning_rate_decay="linear",
    )
    flow = laplace.refine(flow="radial", flow_length=5, seed=0, verbose=0)
    grid = trained_models.LogisticGrid(x, y, precision)
    reference = grid.sample(np.random.default_rng(1), 2000)
    before, after, after_flow = (
        metrics.mmd(reference, one.sample(2000, seed=2))
        for one in (laplace, ensemble, flow)
    )
    assert 10.0 * after < before
    assert 2.0 * after_flow < after
    error = ensemble.elbo_final.std() / np.sqrt(50)
    bound = ensemble.elbo_final.mean()
    assert laplace.elbo(1000).mean() + 1.0 < bound
    assert bound < grid.log_evidence + 4.0 * error
