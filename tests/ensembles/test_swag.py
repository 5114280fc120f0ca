import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tfp_refine import ensembles
from tfp_refine.ensembles import snapshot_moments

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
    snapshots = rng.normal(size=(2, 5, 7))
    mean, variance, deviations = snapshot_moments.moments(snapshots, 2)
    np.testing.assert_allclose(mean, snapshots.mean(axis=1))
    np.testing.assert_allclose(variance, snapshots.var(axis=1))
    for index, count in enumerate((4, 5)):
        running = snapshots[:, :count].mean(axis=1)
        np.testing.assert_allclose(
            deviations[:, index], snapshots[:, count - 1] - running
        )


def test_weights_that_never_move_have_a_variance_nevertheless():
    snapshots = np.ones((1, 4, 2), np.float32)
    mean, variance, deviations = snapshot_moments.moments(snapshots, 2)
    np.testing.assert_array_equal(mean, 1.0)
    np.testing.assert_allclose(variance, 1e-30, rtol=1e-6)
    np.testing.assert_array_equal(deviations, 0.0)


def test_other_weights_are_those_of_the_gaussian(rng):
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(1)]
    )
    model.layers[0].trainable = False
    mean, deviations = np.zeros((2, 3)), np.zeros((2, 2, 3))
    others = rng.normal(size=(2, 8)).astype(np.float32)
    posterior = ensembles.SWAG(
        model, mean, mean + 1.0, deviations, others, np.ones((5, 3), "float32")
    )
    found = posterior.ensemble(5, seed=0)
    np.testing.assert_allclose(found.others, others[[0, 1, 0, 1, 0]], rtol=1e-6)


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
    members = posterior.ensemble(2, seed=5)
    np.testing.assert_allclose(
        posterior.predictive_draws(data[0], 2, seed=5),
        members.predictive_draws(data[0], 2, seed=5),
        rtol=1e-6,
    )


def test_the_course_is_that_of_keras(data):
    model, other = build(), build()
    other.set_weights(model.get_weights())
    posterior = fit(model, data, batch_size=100)  # all examples in each step
    other.compile(keras.optimizers.SGD(0.01, momentum=0.9), model.loss)
    weights = tfr.functional.ModelWeights(other)
    snapshots = []
    for _ in range(6):
        other.fit(*data, batch_size=N, epochs=1, verbose=0)
        snapshots.append(weights.values()[0])
    mean, variance, _ = snapshot_moments.moments(np.array([snapshots]), 3)
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        posterior.variance, variance, rtol=1e-2, atol=1e-9
    )


def test_draws_have_the_moments(data, rng):
    model = build()
    size = tfr.functional.ModelWeights(model).size
    mean = rng.normal(size=(1, size))
    variance = rng.uniform(0.5, 2.0, size=(1, size))
    deviations = rng.normal(size=(1, 4, size))
    posterior = ensembles.SWAG(
        model, mean, variance, deviations, np.zeros((1, 0))
    )
    draws = posterior.sample(40000, seed=1)
    covariance = 0.5 * np.diag(variance[0])
    covariance += 0.5 * deviations[0].T @ deviations[0] / 3.0
    scale = np.sqrt(np.diag(covariance))
    # Five and six standard errors, of 21 means and 441 correlations.
    np.testing.assert_allclose(
        (draws.mean(axis=0) - mean[0]) / scale, 0.0, atol=5 / 200
    )
    errors = (np.cov(draws.T) - covariance) / np.outer(scale, scale)
    np.testing.assert_allclose(errors, 0.0, atol=6 * np.sqrt(2.0) / 200)


def test_moving_averages_are_those_of_the_drawn_weights(data):
    x, _ = data
    model = build(batch_norm=True)
    model.fit(*data, epochs=3, verbose=0)
    posterior = fit(model, data)
    members = posterior.ensemble(2, seed=0)
    for index in range(2):
        member = members.assign_member(index)
        features = member.layers[0](x).numpy()
        norm = member.layers[1]
        np.testing.assert_allclose(
            norm.moving_mean, features.mean(axis=0), rtol=1e-3, atol=1e-5
        )
        np.testing.assert_allclose(
            norm.moving_variance, features.var(axis=0), rtol=1e-3
        )
    draws = tfr.predict(posterior, x, 2, seed=0)
    np.testing.assert_allclose(draws, members.predict(x), rtol=1e-5)


def test_there_is_a_gaussian_around_each_member_of_an_ensemble(data):
    ensemble = ensembles.deep_ensemble(
        build(), *data, num_members=3, steps=20, seed=1, verbose=0
    )
    posterior = fit(ensemble, data, loss=tfr.losses.GaussianNLL(0.5))
    assert posterior.mean.shape == ensemble.params.shape
    distances = np.linalg.norm(
        posterior.mean[:, np.newaxis] - ensemble.params, axis=-1
    )
    np.testing.assert_array_equal(np.argmin(distances, axis=1), [0, 1, 2])
    draws = posterior.sample(3, seed=0)
    distances = np.linalg.norm(draws[:, np.newaxis] - ensemble.params, axis=-1)
    np.testing.assert_array_equal(np.argmin(distances, axis=1), [0, 1, 2])


def test_a_saved_posterior_is_the_same(data, tmp_path):
    model = build(batch_norm=True)
    posterior = fit(model, data)
    posterior.save(tmp_path / "swag.npz")
    loaded = ensembles.SWAG.load(tmp_path / "swag.npz", model)
    np.testing.assert_array_equal(
        loaded.sample(3, seed=0), posterior.sample(3, seed=0)
    )
    with pytest.raises(ValueError, match="set `x` again"):
        loaded.predictive_draws(data[0], 3)
    loaded.x = posterior.x
    np.testing.assert_allclose(
        loaded.predictive_draws(data[0], 3, seed=0),
        posterior.predictive_draws(data[0], 3, seed=0),
        rtol=1e-6,
    )
    with pytest.raises(ValueError, match="must hold a WeightEnsemble"):
        ensembles.WeightEnsemble.load(tmp_path / "swag.npz", model)


def test_an_interrupted_course_ends_in_the_same_place(
    data, tmp_path, monkeypatch
):
    model = build()
    expected = fit(model, data)
    update = keras.utils.Progbar.update

    def interrupt(bar, current, *arguments):
        update(bar, current, *arguments)
        if current == 9:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(keras.utils.Progbar, "update", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fit(model, data, checkpoint_dir=tmp_path)
    found = fit(model, data, checkpoint_dir=tmp_path)
    for name in ("mean", "variance", "deviations"):
        np.testing.assert_array_equal(
            getattr(found, name), getattr(expected, name)
        )
    for change in (
        {"momentum": 0.8}, {"learning_rate": 0.02}, {"num_snapshots": 9},
        {"steps_per_snapshot": 2}, {"batch_size": 15}, {"seed": 2},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="of another swag"):
            fit(model, data, checkpoint_dir=tmp_path, **change)
    with pytest.raises(ValueError, match="of another swag"):
        fit(build(), data, checkpoint_dir=tmp_path)  # from other weights


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 1}, "`rank` must be from 2"),
        ({"rank": 7}, "`rank` must be from 2"),
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
    with pytest.raises(ValueError, match="must be a keras.Model or a Weight"):
        fit("model", data)
