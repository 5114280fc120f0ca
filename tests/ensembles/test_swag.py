import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tfp_refine import ensembles
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.ensembles import swag_posterior

N = 60


def build(batch_norm=False):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, "tanh"),
            *([keras.layers.BatchNormalization()] if batch_norm else []),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", tfr.losses.GaussianNLL(0.5))
    return model


@pytest.fixture
def data(rng):
    x = rng.normal(2.0, 3.0, size=(N, 3)).astype(np.float32)
    y = np.sin(x[:, :1]) + 0.1 * rng.normal(size=(N, 1))
    return x, y.astype(np.float32)


def fit(model, data, **options):
    options = {
        "num_snapshots": 6,
        "rank": 3,
        "batch_size": 16,
        "learning_rate": 0.01,
        "seed": 1,
        "verbose": 0,
    } | options
    return ensembles.swag(model, *data, **options)


def test_moments_are_those_of_the_snapshots(rng):
    snapshots = rng.normal(size=(5, 7))
    mean, covariance = swag_posterior.moments(snapshots, 3)
    np.testing.assert_allclose(mean, snapshots.mean(axis=0))
    deviations = np.stack(
        [snapshots[t] - snapshots[: t + 1].mean(axis=0) for t in (2, 3, 4)]
    )
    np.testing.assert_allclose(
        covariance.matrix(),
        0.5 * np.diag(snapshots.var(axis=0))
        + 0.5 * deviations.T @ deviations / 2.0,
    )


def test_without_rank_the_moments_are_of_independent_weights(rng):
    snapshots = rng.normal(size=(5, 7))
    mean, covariance = swag_posterior.moments(snapshots, 0)
    np.testing.assert_allclose(mean, snapshots.mean(axis=0))
    np.testing.assert_allclose(
        covariance.matrix(), np.diag(snapshots.var(axis=0))
    )


@pytest.mark.parametrize(
    "of_ensemble", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_refinement_starts_from_swag_that_is_given_a_prior(data, of_ensemble):
    start = build()
    with pytest.raises(ValueError, match="needs the prior of the weights"):
        tfr.refine(fit(start, data), *data, verbose=0)
    if of_ensemble:
        start = ensembles.deep_ensemble(
            start, *data, num_members=2, steps=20, seed=1, verbose=0
        )
    options = {"num_members": 2, "steps": 60, "seed": 1, "verbose": 0}
    posterior = fit(start, data, rank=0, prior_scale=0.7)
    refined = tfr.refine(posterior, *data, **options)
    for first in getattr(posterior, "members", [posterior]):
        expected = 0.5 * (
            np.sum(first.loc**2 + first.covariance.variances()) / 0.7**2
            - first.view.size
        ) + first.view.size * np.log(0.7)
        np.testing.assert_allclose(
            first.kl_divergence(),
            expected - first.covariance.log_det,
            rtol=1e-5,
        )
    assert np.all(refined.elbo_final > refined.elbo_init)


def test_weights_that_never_move_have_a_variance_nevertheless():
    snapshots = np.ones((4, 2), np.float32)
    mean, covariance = swag_posterior.moments(snapshots, 2)
    np.testing.assert_array_equal(mean, 1.0)
    np.testing.assert_allclose(covariance.variances(), 0.5e-30, rtol=1e-5)


def test_fixed_weights_are_those_of_the_model(data):
    model = build()
    model.layers[0].trainable = False
    posterior = fit(model, data)
    assert type(posterior) is posteriors.GaussianPosterior
    hidden = model.layers[0](data[0]).numpy()
    theta = posterior.sample(3, seed=0)
    expected = hidden @ theta[:, :4, np.newaxis] + theta[:, np.newaxis, 4:]
    np.testing.assert_allclose(
        posterior.predict(data[0], 3, seed=0), expected, rtol=1e-4, atol=1e-5
    )


def test_draws_of_models_with_noise_follow_the_seed(data):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(8, "tanh"),
            tfr.layers.MCDropout(0.5),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", tfr.losses.GaussianNLL(0.5))
    posterior = fit(model, data)
    first, again, other = (
        posterior.predict(data[0], 2, seed=seed) for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


@pytest.mark.slow
def test_the_course_is_that_of_keras(data):
    model, other = build(), build()
    other.set_weights(model.get_weights())
    posterior = fit(model, data, batch_size=100)  # all examples in each step
    other.compile(keras.optimizers.SGD(0.01, momentum=0.9), model.loss)
    view, snapshots, losses = functional.WeightView(other), [], []
    for _ in range(6):
        history = other.fit(*data, batch_size=N, epochs=1, verbose=0)
        losses += history.history["loss"]
        snapshots.append(view.params().numpy())
    mean, covariance = swag_posterior.moments(np.array(snapshots), 3)
    np.testing.assert_allclose(posterior.loc, mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        posterior.covariance.variances(),
        covariance.variances(),
        rtol=1e-2,
        atol=1e-9,
    )
    np.testing.assert_array_equal(posterior.history["step"], range(1, 7))
    np.testing.assert_allclose(posterior.history["loss"], losses, rtol=1e-4)


def batch_norm_posterior(data):
    model = build(batch_norm=True)
    model.fit(*data, epochs=3, verbose=0)
    return model, fit(model, data)


def test_moving_averages_are_those_of_the_drawn_weights(data):
    x, _ = data
    model, posterior = batch_norm_posterior(data)
    draws = posterior.predict(x, 2, seed=0)
    view = functional.WeightView(model)
    for theta, draw in zip(posterior.sample(2, seed=0), draws, strict=True):
        view.assign(theta)
        features = model.layers[0](x).numpy()
        norm = model.layers[1]
        norm.moving_mean.assign(features.mean(axis=0))
        norm.moving_variance.assign(features.var(axis=0))
        np.testing.assert_allclose(draw, model(x), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_there_is_a_gaussian_around_each_member_of_an_ensemble(data):
    ensemble = ensembles.deep_ensemble(
        build(), *data, num_members=3, steps=20, seed=1, verbose=0
    )
    posterior = fit(ensemble, data)
    assert isinstance(posterior, posteriors.MixturePosterior)
    assert posterior.history["loss"].shape[0] == 3
    for number, member in enumerate(posterior.members):
        distances = np.linalg.norm(member.loc - ensemble.params, axis=-1)
        assert np.argmin(distances) == number
    draws = posterior.sample(5, seed=0)
    distances = np.linalg.norm(draws[:, np.newaxis] - ensemble.params, axis=-1)
    np.testing.assert_array_equal(np.argmin(distances, axis=1), [0, 1, 2, 0, 1])


def test_ensembles_of_other_posteriors_are_refused(data):
    view = functional.WeightView(build(), "none")
    other = posteriors.EnsemblePosterior(
        view, np.zeros((2, 0)), view.fixed(), stacked=False
    )
    with pytest.raises(ValueError, match="must be points"):
        fit(other, data)


@pytest.mark.slow
def test_a_saved_posterior_is_the_same(data, tmp_path):
    _, posterior = batch_norm_posterior(data)
    expected = posterior.predict(data[0], 3, seed=0)
    path = tmp_path / "swag.posterior"
    posterior.save(path)
    loaded = tfr.load_posterior(path)
    np.testing.assert_array_equal(
        loaded.sample(3, seed=0), posterior.sample(3, seed=0)
    )
    with pytest.raises(ValueError, match=r"by `set_data\(x\)`"):
        loaded.predict(data[0], 3)
    with pytest.raises(ValueError, match="expects inputs of shape"):
        loaded.set_data(data[0][:, :2])
    loaded.set_data(data[0])
    np.testing.assert_allclose(
        loaded.predict(data[0], 3, seed=0), expected, rtol=1e-6
    )


@pytest.mark.slow
def test_a_saved_mixture_is_the_same(data, tmp_path):
    ensemble = ensembles.deep_ensemble(
        build(batch_norm=True), *data, num_members=2, steps=20, seed=1,
        verbose=0,
    )  # fmt: skip
    posterior = fit(ensemble, data)
    path = tmp_path / "swag.posterior"
    posterior.save(path)
    loaded = tfr.load_posterior(path)
    for member in loaded.members:
        member.set_data(data[0])
    np.testing.assert_allclose(
        loaded.predict(data[0], 3, seed=0),
        posterior.predict(data[0], 3, seed=0),
        rtol=1e-6,
    )


def test_an_interrupted_course_ends_in_the_same_place(
    data, tmp_path, monkeypatch
):
    model = build()
    expected = fit(model, data)
    update = functional.progress.Progress.update

    def interrupt(bar, current, **values):
        update(bar, current, **values)
        if current == 9:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(functional.progress.Progress, "update", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fit(model, data, checkpoint_dir=tmp_path)
    found = fit(model, data, checkpoint_dir=tmp_path)
    np.testing.assert_array_equal(found.loc, expected.loc)
    for name, value in expected.covariance.arrays().items():
        np.testing.assert_array_equal(found.covariance.arrays()[name], value)
    np.testing.assert_array_equal(
        found.history["loss"], expected.history["loss"]
    )
    for change in (
        {"momentum": 0.8}, {"learning_rate": 0.02}, {"num_snapshots": 9},
        {"steps_per_snapshot": 2}, {"batch_size": 15}, {"seed": 2},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="a different swag"):
            fit(model, data, checkpoint_dir=tmp_path, **change)
    with pytest.raises(ValueError, match="a different swag"):
        fit(build(), data, checkpoint_dir=tmp_path)  # from other weights


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 1}, "`rank` be 0 or from 2"),
        ({"rank": 7}, "`rank` be 0 or from 2"),
        ({"rank": -1}, "not negative"),
        ({"num_snapshots": 1, "rank": 0}, "`num_snapshots` must be at least 2"),
        ({"prior_scale": 0.0}, "prior_scale"),
        ({"momentum": 1.0}, "momentum"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"num_snapshots": 0}, "num_snapshots"),
        ({"steps_per_snapshot": 0}, "steps_per_snapshot"),
        ({"loss": "no_such_loss"}, "no_such_loss"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_arguments_are_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        fit(build(), data, **options)
    with pytest.raises(ValueError, match="must be a keras.Model or an Ens"):
        fit("model", data)
