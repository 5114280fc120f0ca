"""Refinement of several independent fits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr
from tests.support import coordinator as coordinator_lib
from tests.support import linear_gaussian
from tfp_refine import functional
from tfp_refine.functional import executor
from tfp_refine.functional import resumable
from tfp_refine.posteriors import covariances

CASE = linear_gaussian.LinearGaussian()
OPTIONS = {"variance_ratios": (0.7, 0.5), "steps": 4, "batch_size": 6}


def refine(start, **options):
    return tfr.refine(
        start,
        *(CASE.x, CASE.y),
        **{"seed": 5, "verbose": 0, **OPTIONS, **options},
    )


def fit(number, hidden=3, activation="tanh", scale=1.0, num_train_examples=20):
    """Builds a model that differs from others in all its weights.

    Some are fixed: dense ones, moving averages and a noise scale; and the
    prior learns its scale.
    """
    inputs = keras.Input((2,))
    outputs = keras.layers.Dense(hidden, activation=activation)(inputs)
    outputs = keras.layers.BatchNormalization()(outputs)
    outputs = tfr.layers.DenseReparameterization(
        1,
        num_train_examples=num_train_examples,
        kernel_regularizer="empirical_bayes_kl",
    )(outputs)
    model = keras.Model(inputs, tfr.layers.HomoscedasticNoise()(outputs))
    model.compile(loss=tfr.losses.HeteroscedasticGaussianNLL())
    rng = np.random.default_rng(number)
    for variable in model.weights:
        value = rng.normal(scale=scale, size=variable.shape)
        is_variance = variable.name == "moving_variance"
        variable.assign(np.exp(value) if is_variance else value)
    return model


@pytest.fixture(scope="module")
def fits():
    return [fit(1), fit(2)]


@pytest.fixture(scope="module")
def ensemble(fits):
    return refine(fits, num_members=4)


def assert_members_are(ensemble, index, alone):
    """Checks that a member is that of a refinement of one, bit for bit."""
    np.testing.assert_array_equal(ensemble.params[index], alone.params[0])
    for several, one in zip(ensemble.prior, alone.prior, strict=True):
        np.testing.assert_array_equal(several[index], one[0])
    _, fixed = ensemble.weights_of(index)
    for found, expected in zip(fixed, alone.fixed, strict=True):
        np.testing.assert_array_equal(found, expected)
    for name, value in alone.history.items():
        if name not in ("steps", "trace_step", "start"):
            np.testing.assert_array_equal(
                ensemble.history[name][index], value[0], err_msg=name
            )


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(0, marks=pytest.mark.slow),
        1,
        2,
        pytest.param(3, marks=pytest.mark.slow),
    ],
)
def test_a_member_is_that_of_its_start_alone(fits, ensemble, number):
    assert ensemble.history["start"].tolist() == [0, 1, 0, 1]
    alone = refine(fits[number % 2], members=[number])
    assert_members_are(ensemble, number, alone)


@pytest.mark.slow
def test_members_at_once_keep_the_weights_of_their_starts(fits, ensemble):
    """Noise, moving averages and dense layers count in every bound."""
    found = refine(fits, mapping="vmap", num_members=4)
    linear_gaussian.assert_same(found.history, ensemble.history, 1e-4)
    starts = [
        tfr.elbo(one, CASE.x, CASE.y, num_samples=1000, seed=1) for one in fits
    ]
    # Which differ by hundreds of nats, estimates of each by a few.
    assert abs(starts[0] - starts[1]) > 100.0
    for number, bound in enumerate(ensemble.elbo_init):
        assert abs(bound - starts[number % 2]) < 0.2 * abs(starts[number % 2])


@pytest.mark.slow
def test_refined_deterministic_weights_start_from_each_fit(fits):
    ensemble = refine(fits, refine_deterministic=True)
    for number, start in enumerate(fits):
        alone = refine(start, members=[number], refine_deterministic=True)
        assert_members_are(ensemble, number, alone)


@pytest.mark.slow
def test_one_member_of_each_start_by_default(fits):
    assert refine(fits, steps=1).num_members == 2
    assert refine(fits[:1], steps=1).num_members == 10
    some = refine(fits, members=[3])
    assert some.history["start"].tolist() == [1]
    assert_members_are(some, 0, refine(fits[1], members=[3]))


def test_predictions_have_the_noise_of_their_start(fits, ensemble):
    scales = ensemble.predict(CASE.x, num_samples=8, seed=1)[..., 1]
    for number, draw in enumerate(scales):
        noise = np.array(fits[number % 2].layers[-1].untransformed_scale)
        np.testing.assert_allclose(draw, noise.item(), rtol=1e-6)


def test_a_member_is_a_model_with_the_weights_of_its_start(fits, ensemble):
    model = ensemble.member(3)
    variational = fits[1].layers[3].weights
    for old, new in zip(fits[1].weights, model.weights, strict=True):
        if not any(old is weight for weight in variational):
            np.testing.assert_array_equal(old, new)
    assert np.isfinite(model.evaluate(CASE.x, CASE.y, verbose=0))


def test_files_keep_the_weights_of_each_start(ensemble, tmp_path):
    ensemble.save(tmp_path / "a.posterior")
    for model in (None, fit(3)):
        loaded = tfr.load_posterior(tmp_path / "a.posterior", model)
        assert isinstance(loaded, tfr.RefinedEnsemble)
        linear_gaussian.assert_same(loaded.history, ensemble.history)
        for posterior in (loaded, ensemble):
            np.testing.assert_array_equal(
                posterior.predict(CASE.x, 8, seed=1),
                ensemble.predict(CASE.x, 8, seed=1),
            )
        np.testing.assert_array_equal(loaded.sample(4, seed=1),
                                      ensemble.sample(4, seed=1))  # fmt: skip


# Where starts come from.


@pytest.fixture(scope="module")
def deep_ensemble():
    return tfr.ensembles.deep_ensemble(
        fit(1, scale=0.1), CASE.x, CASE.y, num_members=2, steps=5,
        batch_size=10, learning_rate=0.1, seed=1, verbose=0,
    )  # fmt: skip


@pytest.mark.slow
def test_a_deep_ensemble_of_fits_is_refined_as_its_members(deep_ensemble):
    found = refine(deep_ensemble)
    expected = refine([deep_ensemble.member(0), deep_ensemble.member(1)])
    linear_gaussian.assert_same(found.history, expected.history)
    np.testing.assert_array_equal(found.params, expected.params)
    np.testing.assert_array_equal(found.prior, expected.prior)
    noise = found.predict(CASE.x[:1], 2, seed=1)[:, 0, 1]
    assert noise[0] != noise[1]


@pytest.mark.slow
def test_a_variational_posterior_is_refined_as_its_model(fits):
    found = refine(tfr.posterior(fits[0]), members=[0])
    np.testing.assert_array_equal(
        found.params, refine(fits[0], members=[0]).params
    )
    bounds = [
        tfr.elbo(one, CASE.x, CASE.y, seed=1)
        for one in (tfr.posterior(fits[0]), fits[0])
    ]
    assert bounds[0] == bounds[1]


def gaussian(number):
    """Returns a Gaussian posterior, with a prior, of a plain model."""
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1, use_bias=False)]
    )
    model.compile(loss=tfr.losses.GaussianNLL(1.0))
    rng = np.random.default_rng(number)
    return tfr.posteriors.GaussianPosterior(
        functional.WeightView(model),
        rng.normal(size=2).astype("float32"),
        covariances.Diagonal(np.exp(rng.normal(size=2)).astype("float32")),
        [],
        prior_scale=1.0 + number,
    )


@pytest.mark.slow
@pytest.mark.parametrize("gather", [list, tfr.posteriors.MixturePosterior])
def test_gaussian_posteriors_are_starts(gather):
    starts = [gaussian(1), gaussian(2)]
    ensemble = refine(gather(starts))
    for number, start in enumerate(starts):
        assert_members_are(ensemble, number, refine(start, members=[number]))


# Work that stops, and workers.


@pytest.mark.slow
@pytest.mark.parametrize("reports", [0, 3, 5])
def test_interrupted_work_ends_with_the_same_numbers(fits, tmp_path, reports):
    work = linear_gaussian.Work(
        fits, CASE.x, CASE.y, num_members=2, variance_ratios=(0.7,), steps=3
    )
    engine = work.engine(1)
    expected = work.finish(engine)
    checkpoint = resumable.Checkpoint(tmp_path, "refinement", {})
    with pytest.raises(linear_gaussian.Interrupted):
        work.finish(
            linear_gaussian.InterruptedEngine(engine, reports), checkpoint
        )
    again = linear_gaussian.InterruptedEngine(engine)
    linear_gaussian.assert_same(work.finish(again, checkpoint), expected)
    assert reports + again.results == 6


@pytest.mark.slow
def test_a_checkpoint_is_of_these_starts_in_this_order(
    fits, deep_ensemble, tmp_path
):
    expected = refine(fits, checkpoint_dir=tmp_path / "list")
    found = refine([*fits], checkpoint_dir=tmp_path / "list")
    np.testing.assert_array_equal(found.params, expected.params)
    with pytest.raises(ValueError, match="other_weights: "):
        refine(fits[::-1], checkpoint_dir=tmp_path / "list")
    # The weights of the model itself are no part of an ensemble.
    expected = refine(deep_ensemble, checkpoint_dir=tmp_path / "ensemble")
    for variable in deep_ensemble.model.weights:
        variable.assign(variable + 0.5)
    found = refine(deep_ensemble, checkpoint_dir=tmp_path / "ensemble")
    np.testing.assert_array_equal(found.params, expected.params)


@pytest.mark.slow
def test_workers_get_the_weights_of_each_start(fits, ensemble, monkeypatch):
    coordinator = coordinator_lib.make(monkeypatch)
    checked = []
    monkeypatch.setattr(executor, "check_reachable", checked.append)
    found = refine(fits, num_members=4, coordinator=coordinator)
    assert checked == fits
    # A program within another may round otherwise.
    linear_gaussian.assert_same(found.history, ensemble.history, 1e-4)


@pytest.mark.slow
def test_members_that_are_left_out_take_their_weights_along(fits, ensemble):
    def loss(y_true, y_pred):
        nll = tfr.losses.HeteroscedasticGaussianNLL()
        noise = y_pred[0, 1]
        is_first = keras.ops.abs(noise - first) < 1e-5
        value = keras.ops.where(is_first, np.nan, 0.0)
        return nll.example_nll(y_true, y_pred) + value

    first = float(np.array(fits[1].layers[-1].untransformed_scale).item())
    with pytest.warns(RuntimeWarning, match="2 of 4 members diverged"):
        found = refine(fits, num_members=4, loss=loss)
    assert found.history["start"].tolist() == [0, 0]
    for left, number in enumerate((0, 2)):
        params, fixed = found.weights_of(left)
        expected_params, expected = ensemble.weights_of(number)
        np.testing.assert_allclose(params, expected_params, rtol=1e-4)
        for one, other in zip(fixed, expected, strict=True):
            np.testing.assert_array_equal(one, other)


# Bad input.


def other_loss():
    model = fit(2)
    model.compile(loss=tfr.losses.HeteroscedasticGaussianNLL("log_variance"))
    return model


def deterministic_ensemble():
    view = functional.WeightView(gaussian(1).model)
    return tfr.posteriors.EnsemblePosterior(
        view, np.zeros((2, 2), "float32"), []
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda first: [], r"at least one.*model=\[\]"),
        (
            lambda first: [first, first],
            "clone_model.*which share 'dense",
        ),
        (
            lambda first: [first, tfr.posterior(first)],
            "weights of their own",
        ),
        (lambda first: [first, fit(2, hidden=4)], "weights of the same shapes"),
        (lambda first: [first, fit(2, activation="relu")], "different outputs"),
        (lambda first: [first, other_loss()], "same loss.*`loss` be given"),
        (
            lambda first: [first, fit(2, num_train_examples=19)],
            "num_train_examples=19.*20 examples",
        ),
        (lambda first: [first, gaussian(1)], "MeanFieldView.*GaussianView"),
        (lambda first: [first, "model"], "several of them. Received: str"),
        (lambda first: deterministic_ensemble(), "no variational layers"),
        (lambda first: refine(first, steps=1), "to start from must be fits"),
    ],
)
def test_starts_that_do_not_fit_together_are_refused(fits, make, message):
    with pytest.raises(ValueError, match=message):
        refine(make(fits[0]))


@pytest.mark.slow
def test_a_loss_that_is_given_counts_for_all(fits):
    loss = tfr.losses.HeteroscedasticGaussianNLL()
    found = refine([fits[0], other_loss()], loss=loss)
    np.testing.assert_array_equal(found.params, refine(fits).params)


def test_each_start_has_as_many_members(fits):
    with pytest.raises(ValueError, match="multiple of 2.*num_members=3"):
        refine(fits, num_members=3)


@pytest.mark.slow
def test_frozen_layers_may_be_shared():
    shared = keras.layers.Dense(2, trainable=False)

    def build(loc):
        inputs = keras.Input((2,))
        layer = tfr.layers.DenseFlipout(1, num_train_examples=20)
        model = keras.Model(inputs, layer(shared(inputs)))
        model.compile(loss=tfr.losses.GaussianNLL(1.0))
        layer.variational_weights[0].assign(loc=tf.fill((2, 1), loc))
        return model

    ensemble = refine([build(0.0), build(5.0)], steps=1)
    assert ensemble.elbo_init[0] > ensemble.elbo_init[1] + 1.0
