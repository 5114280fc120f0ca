import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_refine
from tests.support import trained_models
from tfp_refine import bijectors
from tfp_refine import functional
from tfp_refine import laplace
from tfp_refine import metrics
from tfp_refine import posteriors
from tfp_refine.functional import train
from tfp_refine.laplace import refinement
from tfp_refine.posteriors import evidence_bound

_PRIOR = 0.01


def _data():
    rng = np.random.default_rng(0)
    return trained_models.logistic_regression(rng, _PRIOR)


@pytest.fixture(scope="module")
def posterior():
    model, x, y = _data()
    return laplace.LastLayerLaplace(
        model, "classification", prior_precision=_PRIOR
    ).fit(x, y, verbose=0)


@pytest.fixture(scope="module")
def grid():
    _, x, y = _data()
    return trained_models.LogisticGrid(x, y, _PRIOR)


def test_no_flow_leaves_the_bound_of_laplace(posterior):
    same = posterior.refine(flow_length=0, verbose=0)
    np.testing.assert_array_equal(same.elbo(50), posterior.elbo(50))
    assert len(same.bijector.bijectors) == 1


@pytest.mark.slow
@pytest.mark.parametrize("flow", ["radial", "planar"])
def test_refinement_comes_three_times_closer(posterior, grid, flow):
    reference = grid.sample(np.random.default_rng(1), 2000)
    before = metrics.mmd(reference, posterior.sample(2000, seed=2))
    refined = posterior.refine(flow=flow, flow_length=5, seed=0, verbose=0)
    after = metrics.mmd(reference, refined.sample(2000, seed=2))
    assert 3.0 * after < before
    bounds = posterior.elbo(4000), refined.elbo(4000)
    errors = [bound.std() / np.sqrt(4000) for bound in bounds]
    assert bounds[0].mean() + 0.5 < bounds[1].mean()
    assert bounds[1].mean() < grid.log_evidence + 5 * errors[1]


def test_flows_that_end_worse_are_those_that_they_began_as(posterior):
    with pytest.warns(UserWarning, match="`learning_rate` may help") as found:
        refined = posterior.refine(
            learning_rate=1e5, epochs=5, seed=0, verbose=0
        )
    assert found[0].filename == __file__
    start = refinement.Flow().initial_params(
        posterior.view.size,
        np.random.default_rng(functional.seeds.key(0, refinement._INIT)),
    )
    first = refined.bijector.bijectors[-1]
    np.testing.assert_allclose(first.parameters["x0"], start["x0"][0], 1e-6)
    assert abs(refined.elbo().mean() - posterior.elbo().mean()) < 5.0
    assert len(refined.history["elbo"])


@pytest.mark.parametrize(
    ("space", "flow"),
    [
        ("whitened", "radial"),
        ("paper", "planar"),
        pytest.param("whitened", "planar", marks=pytest.mark.slow),
        pytest.param("paper", "radial", marks=pytest.mark.slow),
    ],
)
def test_the_density_is_that_of_the_draws(posterior, space, flow):
    refined = refinement.refine(
        posterior,
        flow=refinement.Flow(flow, 3, space),
        epochs=50,
        seed=0,
        verbose=0,
    )
    z = tf.constant(np.random.default_rng(0).normal(size=(5, 2)))
    with tf.GradientTape() as tape:
        tape.watch(z)
        theta = refined.bijector.forward(z)
    log_det = tf.math.log(tf.abs(tf.linalg.det(tape.batch_jacobian(theta, z))))
    np.testing.assert_allclose(
        refined.bijector.forward_log_det_jacobian(z, 1), log_det, rtol=1e-8
    )
    np.testing.assert_allclose(
        refined.bijector.inverse(tf.identity(theta)), z, atol=1e-8
    )
    normal = tfp.distributions.MultivariateNormalDiag(np.zeros(2))
    _, log_q = evidence_bound.push(refined.bijector, z)
    np.testing.assert_allclose(log_q, normal.log_prob(z) - log_det, rtol=1e-8)
    draws = refined.sample(5, seed=0)
    assert not np.allclose(draws, posterior.sample(5, seed=0))


@pytest.mark.slow
@pytest.mark.parametrize("space", refinement.SPACES)
def test_flows_move_standard_normal_draws_or_weights(posterior, space):
    flow = refinement.Flow("radial", 1, space)
    chain = refinement.refine(
        posterior, flow=flow, epochs=2, seed=0, verbose=0
    ).bijector
    (radial,) = (b for b in chain.bijectors if isinstance(b, bijectors.Radial))
    z = np.random.default_rng(0).normal(size=(500, 2))
    moved = chain.forward(z) - posterior.loc
    # Of a Gaussian of the posterior's covariance, moved or to be moved.
    whitened = posterior.covariance.standardize
    if space == "whitened":
        found, expected = whitened(moved), radial.forward(z)
    else:
        gaussian = radial.inverse(chain.forward(z)) - posterior.loc
        found, expected = whitened(gaussian), z
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.slow
def test_the_same_seed_refines_alike(posterior):
    first, second, other = (
        posterior.refine(flow_length=2, epochs=30, seed=seed, verbose=0)
        for seed in (1, 1, 2)
    )
    draws = first.sample(5, seed=0)
    np.testing.assert_array_equal(draws, second.sample(5, seed=0))
    np.testing.assert_array_equal(first.history["elbo"], second.history["elbo"])
    assert not np.array_equal(draws, other.sample(5, seed=0))


@pytest.mark.slow
def test_all_parts_share_one_program(posterior, monkeypatch):
    programs = []

    make = train.make_program

    def observed(*arguments, **options):
        programs.append(make(*arguments, **options))
        return programs[-1]

    monkeypatch.setattr(train, "make_program", observed)
    posterior.refine(flow_length=2, epochs=45, batch_size=20, verbose=0)
    assert [program.trace_count for program in programs] == [1]


@pytest.mark.slow
@pytest.mark.parametrize("flow", ["radial", "planar"])
def test_a_saved_posterior_is_the_same(posterior, tmp_path, flow):
    refined = posterior.refine(
        flow=flow, flow_length=2, epochs=30, seed=1, verbose=0
    )
    path = tmp_path / "refined.posterior"
    refined.save(path)
    for model in (None, posterior.model):
        loaded = tfp_refine.load_posterior(path, model)
        assert isinstance(loaded, posteriors.FlowPosterior)
        np.testing.assert_array_equal(
            loaded.sample(7, seed=3), refined.sample(7, seed=3)
        )
        assert loaded.prior_precision == refined.prior_precision
        with pytest.raises(ValueError, match="not saved"):
            loaded.elbo()
        # There is no hidden layer: features are the inputs.
        loaded.set_data(*posterior.training_data)
        np.testing.assert_array_equal(loaded.elbo(10), refined.elbo(10))


@pytest.mark.slow
def test_a_refined_posterior_predicts_as_every_posterior(posterior, tmp_path):
    refined = posterior.refine(flow_length=2, epochs=30, seed=1, verbose=0)
    x = posterior.training_data[0]
    draws = refined.predict(x, 6, seed=2)
    assert draws.shape == (6, 50, 1)
    np.testing.assert_allclose(
        draws[..., 0], refined.sample(6, seed=2) @ x.T, rtol=1e-4, atol=1e-4
    )
    probs = tf.sigmoid(draws)[..., 0].numpy().mean(axis=0)
    np.testing.assert_allclose(
        refined.predict_proba(x, 6, seed=2)[:, 1], probs, rtol=1e-5
    )
    summary = refined.summarize(x, 6, seed=2)
    np.testing.assert_allclose(summary.mean, draws.mean(axis=0), rtol=1e-5)
    with pytest.raises(ValueError, match="`method`"):
        refined.predict_proba(x, method="probit")
    refined.export(tmp_path / "exported", 6, seed=2)
    served = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(served.serve(x), draws, rtol=1e-5)


@pytest.mark.slow
def test_later_changes_of_laplace_do_not_matter(posterior):
    refined = posterior.refine(flow_length=1, epochs=5, seed=1, verbose=0)
    before = refined.sample(3, seed=0)
    posterior.prior_precision = 5.0
    try:
        np.testing.assert_array_equal(refined.sample(3, seed=0), before)
    finally:
        posterior.prior_precision = _PRIOR


def test_from_scratch_starts_at_a_standard_normal(posterior):
    flow = refinement.Flow(length=0, base="standard_normal")
    start = refinement.refine(posterior, flow=flow, verbose=0)
    draws = start.sample(4000, seed=0)
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=0.1)
    np.testing.assert_allclose(draws.std(axis=0), 1.0, atol=0.1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"flow": "spline"},
        {"flow_length": -1},
        {"flow_length": 2.5},
        {"prior_precision": 0.0},
        {"epochs": 0},
        {"batch_size": 0},
        {"learning_rate": -1.0},
        {"num_samples": 0},
        {"seed": -1},
    ],
)
def test_bad_arguments_are_named(posterior, arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=f"`{name}`"):
        posterior.refine(verbose=0, **arguments)


@pytest.mark.parametrize("choice", [{"space": "logits"}, {"base": "prior"}])
def test_bad_choices_of_the_paper_are_named(choice):
    (name,) = choice
    with pytest.raises(ValueError, match=f"`{name}`"):
        refinement.Flow(**choice)


@pytest.mark.slow
def test_all_layers_are_refined_too(rng):
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(3, activation="tanh"),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    x, y = rng.normal(size=(30, 2)), rng.integers(0, 2, 30)
    posterior = laplace.DiagonalLaplace(model, "classification").fit(
        x, y, verbose=0
    )
    refined = posterior.refine(seed=0, epochs=300, verbose=0)
    assert refined.elbo(500).mean() > posterior.elbo(500).mean() + 1.0
    assert refined.predict(x, 4, seed=0).shape == (4, 30, 2)


def without_training(monkeypatch):
    """Returns a list of the data that flows are trained with, unchanged."""
    schedules = []

    def observed(
        loss, params, data, batches, epochs, learning_rate, key, verbose
    ):
        schedules.append((epochs, batches.batch_size, learning_rate))
        return params, np.zeros(0)

    monkeypatch.setattr(refinement, "train_params", observed)
    return schedules


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (2000, 128, 0.1)),
        ({"batch_size": 10}, (400, 10, 0.1)),
        ({"batch_size": 30}, (2000, 30, 0.1)),
        (
            {
                "epochs": 3,
                "batch_size": 7,
                "learning_rate": 0.5,
            },
            (3, 7, 0.5),
        ),
    ],
    ids=str,
)
def test_flows_are_trained_as_asked_for(
    posterior, options, expected, monkeypatch
):
    schedules = without_training(monkeypatch)
    posterior.refine(seed=0, verbose=0, **options)
    assert schedules == [expected]


def test_the_paper_takes_smaller_steps(posterior, monkeypatch):
    schedules = without_training(monkeypatch)
    flow = refinement.Flow(space="paper")
    refinement.refine(posterior, flow=flow, seed=0, verbose=0)
    assert schedules == [(2000, 128, 1e-3)]


@pytest.mark.parametrize("flow", ["radial", "planar"])
def test_where_flows_begin_follows_the_seed(posterior, flow, monkeypatch):
    without_training(monkeypatch)
    first, second, other = (
        posterior.refine(flow=flow, seed=seed, verbose=0).sample(5, seed=0)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


@pytest.mark.slow
def test_the_prior_that_is_given_is_that_of_the_bound(posterior):
    options = {"prior_precision": 5.0, "seed": 0, "verbose": 0}
    start = posterior.refine(flow_length=0, **options)
    theta = posterior.sample(50, seed=0)
    scale = np.sqrt([1 / 5.0, 1 / _PRIOR])
    given, before = (
        tfp.distributions.Normal(np.float64(0.0), one).log_prob(theta)
        for one in scale
    )
    np.testing.assert_allclose(
        start.elbo(50, seed=0) - posterior.elbo(50, seed=0),
        np.sum(given - before, axis=-1),
        rtol=1e-5,
        atol=1e-5,
    )
    refined = posterior.refine(epochs=300, **options)
    assert refined.prior_precision == 5.0
    assert refined.elbo(500).mean() > start.elbo(500).mean() + 10.0
    assert posterior.prior_precision == _PRIOR


def test_a_saved_posterior_has_its_own_prior_and_trace(posterior, tmp_path):
    refined = posterior.refine(
        flow_length=1, prior_precision=2.0, epochs=3, seed=1, verbose=0
    )
    posterior.prior_precision = 5.0
    try:
        refined.save(tmp_path / "refined.posterior")
    finally:
        posterior.prior_precision = _PRIOR
    loaded = tfp_refine.load_posterior(
        tmp_path / "refined.posterior", posterior.model
    )
    assert loaded.prior_precision == 2.0
    trace = loaded.history["elbo"]
    assert trace.shape == (3,)
    np.testing.assert_array_equal(trace, refined.history["elbo"])
    np.testing.assert_array_equal(
        loaded.sample(7, seed=3), refined.sample(7, seed=3)
    )


def test_a_loaded_laplace_is_refined_on_data_given_again(posterior, tmp_path):
    posterior.save(tmp_path / "laplace.posterior")
    loaded = tfp_refine.load_posterior(
        tmp_path / "laplace.posterior", posterior.model
    )
    with pytest.raises(ValueError, match="not saved"):
        loaded.refine(verbose=0)
    # There is no hidden layer: features are the inputs.
    data = posterior.training_data
    refined = loaded.refine(*data, flow_length=0, verbose=0)
    np.testing.assert_array_equal(refined.elbo(9), posterior.elbo(9))
    assert loaded.training_data is None
