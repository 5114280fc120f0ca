import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tests.support import linear_gaussian
from tfp_refine.posteriors import protocol


@pytest.fixture(scope="module")
def problem():
    return linear_gaussian.LinearGaussian()


@pytest.fixture(scope="module")
def model(problem):
    inputs = keras.Input((2,))
    outputs = tfr.layers.DenseReparameterization(
        1, num_train_examples=20, kernel_regularizer="empirical_bayes_kl"
    )(inputs)
    model = keras.Model(inputs, tfr.layers.HomoscedasticNoise()(outputs))
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=tfr.losses.HeteroscedasticGaussianNLL(),
    )
    model.fit(problem.x, problem.y, epochs=2, verbose=0)
    return model


@pytest.fixture(scope="module")
def ensemble(problem, model):
    return tfr.refine(
        model, problem.x, problem.y, num_members=3, steps=5,
        variance_ratios=(0.7, 0.5), seed=1, verbose=0,
    )  # fmt: skip


@pytest.mark.slow
def test_draws_are_of_the_members_in_turn(problem, ensemble):
    many = ensemble.predict(problem.x, num_samples=9000, seed=2)
    assert many.shape == (9000, 20, 2)
    by_member = many[..., 0].reshape(3000, 3, 20).mean(axis=0)
    for index in range(3):
        with tfr.layers.mean_weights():
            expected = ensemble.member(index)(problem.x)[:, 0]
        np.testing.assert_allclose(by_member[index], expected, atol=0.02)


@pytest.mark.slow
def test_draws_of_the_weights_have_the_members_moments(ensemble, monkeypatch):
    params = ensemble.params.copy()
    params[:, 1] += [[-1.0], [0.0], [1.0]]  # members of other scales
    monkeypatch.setattr(ensemble, "params", params)
    drawn = ensemble.sample(3 * 4000, seed=1).reshape(4000, 3, -1)
    assert drawn.shape == (4000, *ensemble.loc.shape)
    # Six standard errors.
    errors = ensemble.scale / np.sqrt(4000)
    assert np.max(np.abs(drawn.mean(axis=0) - ensemble.loc) / errors) < 6.0
    np.testing.assert_allclose(
        drawn.std(axis=0), ensemble.scale, rtol=6 / np.sqrt(2 * 4000)
    )


def test_draws_of_members_in_parts_are_the_same(problem, ensemble, monkeypatch):
    draws = ensemble.predict(problem.x, 8, seed=2)
    weights = ensemble.sample(8, seed=2)
    monkeypatch.setattr(protocol, "MAX_NUMBERS", 2 * ensemble.params[0].size)
    np.testing.assert_array_equal(ensemble.predict(problem.x, 8, seed=2), draws)
    np.testing.assert_array_equal(ensemble.sample(8, seed=2), weights)


@pytest.mark.slow
def test_later_training_of_the_model_does_not_touch_the_ensemble(problem):
    model = problem.model()
    ensemble = tfr.refine(
        model, problem.x, problem.y, num_members=2, steps=2, seed=1, verbose=0
    )
    before = ensemble.predict(problem.x, seed=1)
    model.fit(problem.x, problem.y, epochs=3, verbose=0)
    np.testing.assert_array_equal(ensemble.predict(problem.x, seed=1), before)


@pytest.mark.slow
def test_deterministic_weights_are_the_ensembles_own(problem, model):
    ensemble = tfr.refine(
        model, problem.x, problem.y, num_members=2, steps=1, seed=1, verbose=0
    )
    noise = model.layers[-1].untransformed_scale
    before = np.array(noise)
    noise.assign(before + 1.0)
    draws = ensemble.predict(problem.x, seed=1)
    noise.assign(before)
    np.testing.assert_allclose(draws[..., 1], before.item(), rtol=1e-6)


@pytest.mark.slow
def test_member_is_an_ordinary_model_with_the_members_posterior(
    problem, model, ensemble
):
    member = ensemble.member(1)
    layer = member.layers[1]
    # Kernel, then bias, flattened.
    for index, weight in enumerate(layer.variational_weights):
        part = slice(2 * index, 2 * index + int(np.prod(weight.loc.shape)))
        np.testing.assert_allclose(np.ravel(weight.loc), ensemble.loc[1, part])
        np.testing.assert_allclose(
            np.ravel(weight.scale), ensemble.scale[1, part], rtol=1e-6
        )
    assert member.layers[-1].get_weights() == model.layers[-1].get_weights()
    assert np.isfinite(member.evaluate(problem.x, problem.y, verbose=0))
    member.fit(problem.x, problem.y, verbose=0)
    assert not np.array_equal(np.ravel(layer.kernel), ensemble.loc[1, :2])


@pytest.mark.slow
@pytest.mark.parametrize("index", [-1, 3])
def test_member_that_does_not_exist(ensemble, index):
    with pytest.raises(IndexError, match=rf"\[0, 3\).*index={index}"):
        ensemble.member(index)


def test_saved_ensemble_is_the_same_in_every_way(problem, ensemble, tmp_path):
    ensemble.save(tmp_path / "a.posterior")
    loaded = tfr.load_posterior(tmp_path / "a.posterior")
    assert isinstance(loaded, tfr.RefinedEnsemble)
    linear_gaussian.assert_same(loaded.history, ensemble.history)
    for name in ("params", "loc", "scale", "elbo_init", "elbo_final"):
        np.testing.assert_array_equal(
            getattr(loaded, name), getattr(ensemble, name)
        )
    np.testing.assert_array_equal(loaded.prior, ensemble.prior)
    for old, new in zip(
        ensemble.member(2).get_weights(),
        loaded.member(2).get_weights(),
        strict=True,
    ):
        np.testing.assert_array_equal(new, old)
    assert np.isfinite(
        loaded.member(0).evaluate(problem.x, problem.y, verbose=0)
    )


def test_conditional_prior_has_the_remaining_variance(model, ensemble):
    rest = np.sqrt((1 - 0.7) * (1 - 0.5))
    scales = [
        np.broadcast_to(weight.prior.scale, weight.loc.shape).ravel()
        for weight in model.layers[1].variational_weights
    ]
    np.testing.assert_allclose(
        ensemble.prior.scale,
        np.tile(np.concatenate(scales) * rest, (3, 1)),
        rtol=1e-6,
    )


def test_history_has_a_row_for_each_member(ensemble):
    history = ensemble.history
    assert ensemble.elbo_final.shape == ensemble.elbo_init.shape == (3,)
    for name in ("elbo_conditioned", "elbo_aux", "cost", "kept"):
        assert history[name].shape == (3, 2)
    assert history["trace_step"].tolist() == list(range(1, 11))
    assert history["trace_elbo"].shape == (3, 10)


class _NoConfig(keras.Model):
    def __init__(self, units):
        super().__init__()
        self.dense = tfr.layers.DenseFlipout(units)

    def call(self, inputs):
        return self.dense(inputs)


def test_model_that_cannot_be_copied_still_predicts(problem, tmp_path):
    model = _NoConfig(1)
    model(problem.x)
    model.compile(loss="mse")
    ensemble = tfr.refine(
        model, problem.x, problem.y, num_members=2, steps=1, seed=1, verbose=0
    )
    draws = ensemble.predict(problem.x, 4, seed=1)
    assert draws.shape == (4, 20, 1)
    with pytest.raises(ValueError, match="cannot be copied.*`get_config`"):
        ensemble.member(0)
    # Keras cannot save it either: it has to be given.
    ensemble.save(tmp_path / "a.posterior")
    with pytest.raises(ValueError, match="give `model`"):
        tfr.load_posterior(tmp_path / "a.posterior")
    loaded = tfr.load_posterior(tmp_path / "a.posterior", model)
    np.testing.assert_array_equal(loaded.predict(problem.x, 4, seed=1), draws)


@pytest.mark.slow
def test_loss_that_is_not_registered_does_not_stop_loading(problem, tmp_path):
    def mine(y_true, y_pred):
        return keras.ops.square(y_true - y_pred)[:, 0]

    model = problem.model()
    model.compile(loss=mine)
    ensemble = tfr.refine(
        model, problem.x, problem.y, num_members=2, steps=1, seed=1, verbose=0
    )
    ensemble.save(tmp_path / "a.posterior")
    loaded = tfr.load_posterior(tmp_path / "a.posterior")
    np.testing.assert_array_equal(
        loaded.predict(problem.x, seed=1), ensemble.predict(problem.x, seed=1)
    )
