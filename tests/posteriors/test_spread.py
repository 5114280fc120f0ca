"""Tests of the spread of draws of outputs around their mean."""

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import tfp_refine as tfr
from tests.support import posterior_cases
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.posteriors import spread as spread_lib

X, Y = posterior_cases.data("classes")
N, S = len(X), 7
CANDIDATES = np.arange(20, 0, -1) / 20


@pytest.fixture
def ensemble():
    """Returns an ensemble of its own, of five points around a network."""
    model = posterior_cases.network()
    return around(model, 5, 0.5)


def around(model, count, scale):
    view = functional.WeightView(model, "trainable")
    rng = np.random.default_rng(0)
    noise = scale * rng.standard_normal((count, view.size))
    return posteriors.EnsemblePosterior(
        view,
        np.float32(view.params() + noise),
        view.fixed(),
        functional.links.find(model),
        stacked=False,
    )


def narrowed(draws, spread):
    draws = np.float64(draws)
    mean = draws.mean(axis=0)
    return mean + spread * (draws - mean)


def score(draws, spread, log_prob, weights=1.0):
    """Computes the log posterior density; `log_prob` is `[S, N]`."""
    values = log_prob(narrowed(draws, spread))
    mixture = scipy.special.logsumexp(values, axis=0)
    return np.sum(weights * mixture) + scipy.stats.beta(2, 1).logpdf(spread)


def best(*args):
    """Finds the best spread of draws, with the arguments of `score`."""
    scores = [score(args[0], spread, *args[1:]) for spread in CANDIDATES]
    return CANDIDATES[np.argmax(scores)]


def log_probs_of(labels):
    def log_prob(logits):
        log_probs = scipy.special.log_softmax(logits, axis=-1)
        chosen = np.expand_dims(labels, (0, -1))
        chosen = np.broadcast_to(chosen, (*log_probs.shape[:-1], 1))
        return np.take_along_axis(log_probs, chosen, -1)[..., 0]

    return log_prob


@pytest.mark.parametrize(
    "name", ["deep_ensemble", "multi_swag", "laplace_full"]
)
def test_draws_move_towards_their_mean(name):
    posterior = posterior_cases.posterior(name)
    wide = posterior.predict(X, S, seed=1)
    probs = posterior.predict_proba(X, S, seed=1)
    posterior.spread = 0.25
    try:
        for batch_size in (N, 16):
            found = posterior.predict(X, S, seed=1, batch_size=batch_size)
            np.testing.assert_allclose(found, narrowed(wide, 0.25), atol=1e-5)
            np.testing.assert_allclose(
                posterior.predict_proba(X, S, seed=1, batch_size=batch_size),
                scipy.special.softmax(found, axis=-1).mean(axis=0),
                atol=1e-6,
            )
            for quantiles in ((), (0.5,)):
                summary = posterior.summarize(
                    X, S, quantiles=quantiles, seed=1, batch_size=batch_size
                )
                np.testing.assert_allclose(
                    summary.std, found.std(axis=0), atol=1e-5
                )
        assert not np.allclose(probs, posterior.predict_proba(X, S, seed=1))
    finally:
        posterior.spread = 1.0


def test_weights_are_drawn_as_before(ensemble):
    wide = ensemble.sample(S, seed=1)
    ensemble.spread = 0.0
    np.testing.assert_array_equal(ensemble.sample(S, seed=1), wide)


def test_more_draws_than_are_computed_at_once_have_one_mean(ensemble):
    probs = {}
    for spread in (1.0, 0.5):
        ensemble.spread = spread
        probs[spread] = ensemble.predict_proba(X, 100, seed=1)
    ensemble.spread = 1.0
    draws = ensemble.predict(X, 100, seed=1)
    for spread, found in probs.items():
        logits = narrowed(draws, spread)
        expected = scipy.special.softmax(logits, axis=-1).mean(axis=0)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_half_precision_does_not_overflow():
    draws = np.repeat(np.float16([[0.0], [4e4]]), 100, axis=0)
    found = spread_lib.narrow({"a": draws, "b": np.arange(4)}, 0.5)
    np.testing.assert_array_equal(found["a"], 1e4 + draws / 2)
    assert found["a"].dtype == tf.float16
    assert found["b"].numpy().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [0.1, 0.6])
def test_the_most_likely_spread_is_found(error):
    # Members differ by 1; their mean is wrong by less.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 1)).astype(np.float32)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(loss=tfr.losses.GaussianNLL(0.1))
    ensemble = around(model, 8, 1.0)
    draws = ensemble.predict(x, 8)
    y = draws.mean(axis=0) + error * rng.normal(size=(40, 1))
    y = y.astype(np.float32)
    found = ensemble.fit_spread(x, y, num_samples=8, batch_size=9).spread
    gaussian = scipy.stats.norm(0.0, 0.1)
    assert found == pytest.approx(
        best(draws, lambda moved: gaussian.logpdf(moved - y)[..., 0])
    )
    assert 0.0 < found < 1.0
    # Twice gives the same: draws are scored as they were drawn.
    assert ensemble.fit_spread(x, y, num_samples=8).spread == found


def test_weights_of_examples_count_their_predictions(ensemble):
    draws = ensemble.predict(X, 5)
    # Half of the labels are those of a single member.
    labels = np.where(np.arange(N) < N // 2, Y, draws[0].argmax(axis=-1))
    found = []
    for weights in (np.arange(N) < N // 2, np.arange(N) >= N // 2):
        counts = np.where(weights, 3.0, 0.01)
        ensemble.fit_spread(
            X, labels, sample_weight=counts, num_samples=5, batch_size=16
        )
        found.append(ensemble.spread)
        assert ensemble.spread == pytest.approx(
            best(draws, log_probs_of(labels), counts)
        )
    assert found[0] != found[1]
    by_class = {number: 3.0 - number for number in range(3)}
    ensemble.fit_spread(X, Y, class_weight=by_class, num_samples=5)
    assert ensemble.spread == pytest.approx(
        best(draws, log_probs_of(Y), 3.0 - Y)
    )


def _sequences(mask):
    rng = np.random.default_rng(1)
    x = rng.integers(1, 6, size=(30, 4))
    x[rng.uniform(size=x.shape) < 0.4] = 0
    x[:, 0] = 1
    labels = rng.integers(0, 3, size=x.shape)
    model = keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            keras.layers.Embedding(6, 3, mask_zero=mask),
            keras.layers.Dense(3),
        ]
    )
    model.compile(loss=tfr.losses.CategoricalNLL())
    return around(model, 6, 2.0), x.astype(np.int32), labels


@pytest.mark.parametrize("mask", [True, False])
def test_positions_count_by_masks_and_weights(mask):
    ensemble, x, labels = _sequences(mask)
    draws = ensemble.predict(x, 6)
    seen = (x > 0) | (not mask)
    # Positions that do not count follow one member.
    labels = np.where(seen, draws.mean(0).argmax(-1), labels)
    weights = np.random.default_rng(2).uniform(0.2, 2.0, size=x.shape)

    def log_prob(moved):
        return np.sum(weights * seen * log_probs_of(labels)(moved), axis=-1)

    ensemble.fit_spread(
        x, labels, sample_weight=weights, num_samples=6, batch_size=11
    )
    assert ensemble.spread == pytest.approx(best(draws, log_prob))


def test_several_outputs_have_one_spread():
    inputs = keras.Input((4,))
    outputs = {
        "a": keras.layers.Dense(1, name="a")(inputs),
        "b": keras.layers.Dense(1, name="b")(inputs),
    }
    model = keras.Model(inputs, outputs)
    model.compile(
        loss={
            "a": tfr.losses.GaussianNLL(0.3),
            "b": tfr.losses.GaussianNLL(0.6),
        }
    )
    ensemble = around(model, 6, 0.5)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 4)).astype(np.float32)
    draws = ensemble.predict(x, 6)
    y = {
        name: draws[name].mean(axis=0) + 0.4 * rng.normal(size=(30, 1))
        for name in draws
    }
    ensemble.fit_spread(x, y, num_samples=6)
    scores = []
    for spread in CANDIDATES:
        values = sum(
            scipy.stats.norm(y[name], scale).logpdf(
                narrowed(draws[name], spread)
            )
            for name, scale in (("a", 0.3), ("b", 0.6))
        )
        mixture = scipy.special.logsumexp(values, axis=0)
        scores.append(mixture.sum() + np.log(spread))
    assert ensemble.spread == pytest.approx(CANDIDATES[np.argmax(scores)])
    found = ensemble.predict(x, 6)
    ensemble.spread = 1.0
    for name in found:
        assert found[name].std() < ensemble.predict(x, 6)[name].std()


def test_draws_that_agree_keep_the_spread_1():
    posterior = posterior_cases.posterior("temperature")
    posterior.fit_spread(X, Y, seed=1)
    assert posterior.spread == 1.0


@pytest.mark.parametrize("name", ["variational", "cyclical_sghmc", "flow"])
def test_it_is_of_every_family(name):
    posterior = posterior_cases.posterior(name)
    draws = posterior.predict(X, 20, seed=1)
    try:
        assert posterior.fit_spread(X, Y, num_samples=20, seed=1) is posterior
        log_prob = log_probs_of(Y)
        expected = score(draws, best(draws, log_prob), log_prob)
        found = score(draws, posterior.spread, log_prob)
        assert found == pytest.approx(expected, abs=1e-4)
    finally:
        posterior.spread = 1.0


def test_files_and_exports_have_it(ensemble, tmp_path):
    ensemble.spread = 0.4
    expected = ensemble.predict(X, S, seed=1)
    ensemble.save(tmp_path / "saved.posterior")
    loaded = tfr.load_posterior(tmp_path / "saved.posterior")
    assert loaded.spread == 0.4
    np.testing.assert_array_equal(loaded.predict(X, S, seed=1), expected)
    ensemble.export(tmp_path / "exported", S, seed=1)
    served = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(served.serve(X), expected, atol=1e-5)


def test_another_fit_starts_at_1():
    network = posterior_cases.network()
    for posterior in (
        tfr.ensembles.TemperatureScaling(network),
        tfr.laplace.DiagonalLaplace(network, "classification"),
    ):
        posterior.spread = 0.5
        posterior.fit(X, Y)
        assert posterior.spread == 1.0


def test_repr_shows_it(ensemble):
    assert "spread" not in repr(ensemble)
    ensemble.spread = 0.5
    assert "spread=0.5" in repr(ensemble)


def test_targets_without_weight_may_be_anything(ensemble):
    weights = np.float32(np.arange(N) % 3 > 0)
    seen = weights > 0
    ensemble.fit_spread(X[seen], Y[seen], num_samples=5)
    expected = ensemble.spread
    for impossible in (-1, 7):
        labels = np.where(seen, Y, impossible)
        ensemble.fit_spread(X, labels, sample_weight=weights, num_samples=5)
        assert ensemble.spread == expected


def test_members_that_diverged_are_an_error(ensemble):
    ensemble.params = np.copy(ensemble.params)
    ensemble.params[3] = np.nan
    with (
        pytest.warns(RuntimeWarning, match="NaN or infinite, first in draw 3"),
        pytest.raises(ValueError, match="NaN or infinite. Have members div"),
    ):
        ensemble.fit_spread(X, Y, num_samples=5)
    assert ensemble.spread == 1.0


def test_bfloat16_is_narrowed():
    policy = keras.DTypePolicy("mixed_bfloat16")
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(3, dtype=policy)]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    ensemble = around(model, 5, 0.5)
    wide = np.float32(ensemble.predict(X, 5))
    ensemble.spread = 0.5
    found = np.float32(ensemble.predict(X, 5))
    np.testing.assert_allclose(found, narrowed(wide, 0.5), atol=0.05)
    assert 0.0 < ensemble.fit_spread(X, Y, num_samples=5).spread <= 1.0


def test_closed_forms_have_none():
    posterior = posterior_cases.posterior("laplace_full")
    posterior.spread = 0.5
    try:
        with pytest.raises(ValueError, match=r"method='probit', spread=0\.5"):
            posterior.predict_proba(X, method="probit")
    finally:
        posterior.spread = 1.0


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, "1", None, True])
def test_bad_spreads_are_refused(ensemble, value):
    with pytest.raises(ValueError, match=r"`spread` must be in \[0, 1\]"):
        ensemble.spread = value
    assert ensemble.spread == 1.0


def test_data_that_do_not_fit_are_refused(ensemble):
    for options, message in (
        ({"y": Y[:-1]}, "examples"),
        ({"y": Y + 7}, "Class numbers"),
        ({"y": None}, "`y` must be given"),
        ({"y": Y, "num_samples": 0}, "`num_samples`"),
        (
            {"y": Y, "loss": lambda y, p: tf.reduce_mean(p)},
            "one value for each",
        ),
        ({"y": Y, "sample_weight": -np.ones(N)}, "`sample_weight`"),
    ):
        with pytest.raises(ValueError, match=message):
            ensemble.fit_spread(X, **options)
    assert ensemble.spread == 1.0
