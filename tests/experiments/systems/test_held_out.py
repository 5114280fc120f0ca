"""Tests of settings that a part of the training data chooses."""

import dataclasses
import math
import types

import numpy as np
import pytest
import scipy.special
import scipy.stats

from tfp_refine import datasets
from tfp_refine import ensembles
from tfp_refine import losses
from tfp_refine import recipes
from tfp_refine import refinement
from tfp_refine.experiments import compare
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.systems import fitted
from tfp_refine.experiments.systems import held_out
from tfp_refine.experiments.systems import registry
from tfp_refine.experiments.systems import repetition

CONFIG = compare.Config(
    hidden=(4,), train_steps=200, likelihood="heteroscedastic", num_samples=4,
    num_members=2, refine_steps=20, num_eval_samples=2, seeds=1, seed=3,
    progress=False,
)  # fmt: skip
# Factors on the KL divergence, and the start where it is another.
CANDIDATES = (
    (3.0, ""),
    (1.0, "deep_ensemble(map(train_steps={short})),"),
    (0.3, ""),
    (0.1, ""),
)


def _numbers(count, noise=0.1):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 2)).astype(np.float32)
    y = np.sin(x[:, :1]) + noise * rng.normal(size=(count, 1))
    y = y.astype(np.float32)
    return dataset.Dataset(
        train=(x, y),
        validation=(x[:0], y[:0]),
        # No choice may look at them.
        test=(x, np.full_like(y, np.nan)),
        scaler=datasets.Standardizer.fit(y),
    )


def _repetition(data, number=0, folder=None, **options):
    config = dataclasses.replace(CONFIG, **options)
    found = config.after_data("regression", (2,), len(data.train[0]))
    return repetition.Repetition(
        config.with_defaults(found), data, number, folder
    )


def _parse(text):
    return registry.parse(text, fields.Bench)


def _gaussian(draws):
    loss = losses.HeteroscedasticGaussianNLL()
    return tuple(map(np.asarray, loss.loc_and_scale(draws)))


def _log_likelihood(draws, y):
    density = scipy.stats.norm(*_gaussian(draws)).pdf(y)[..., 0]
    return np.log(np.mean(density, axis=0))


def test_a_fifth_of_the_training_data_is_held_out():
    data = _numbers(11)
    found = _repetition(data).held_out().data
    assert [len(y) for _, y in (found.train, found.test)] == [8, 3]
    x = np.concatenate([found.train[0], found.test[0]])
    y = np.concatenate([found.train[1], found.test[1]])
    order, usual = np.argsort(x[:, 0]), np.argsort(data.train[0][:, 0])
    np.testing.assert_array_equal(x[order], data.train[0][usual])
    np.testing.assert_array_equal(y[order], data.train[1][usual])
    other = _repetition(data, number=1).held_out().data
    assert not np.array_equal(other.test[0], found.test[0])


def test_one_example_is_too_few_to_hold_some_out():
    with pytest.raises(ValueError, match="two training examples. Received: 1"):
        _repetition(_numbers(1)).held_out()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "steps", "low", "high"),
    [(0.0, 1000, 0.1, 0.4), (0.5, 5000, 0.35, 3.0)],
    ids=["no noise", "much noise"],
)
def test_members_get_the_factors_that_held_out_data_weigh(
    tmp_path, noise, steps, low, high, monkeypatch
):
    starts, refine = [], refinement.refine

    def seen(start, *args, **kwargs):
        starts.append(start)
        return refine(start, *args, **kwargs)

    monkeypatch.setattr(refinement, "refine", seen)
    data = _numbers(60, noise)
    options = {"hidden": (20,), "train_steps": steps, "refine_steps": 100}
    options |= {"num_members": 4}
    with folder_lib.Folder(tmp_path, "systems", CONFIG, {}) as folder:
        of = _repetition(data, 0, folder, **options)
        found, _ = of.fitted(_parse("refined_ensemble"))
        mean = found.diagnostics["member_kl_scale"]
        assert low <= mean <= high
        # The second candidates are around networks of a short training.
        short = 3 * steps // 100
        text = f"deep_ensemble(map(train_steps={short}))"
        briefly, _ = of.fitted(_parse(text))
        expected = recipes.narrow_posteriors(
            briefly.posterior, [1.0] * 4, num_train_examples=60
        )
        np.testing.assert_array_equal(starts[-1].params[4:8], expected.params)
        weights = _weights(of.held_out(), short)
        scales = [scale for scale, _ in CANDIDATES]
        assert mean == pytest.approx(math.exp(weights @ np.log(scales)))
        of_short = found.diagnostics["member_short_training"]
        assert of_short == pytest.approx(weights[1])
        # Two trainings of each kind, and two refinements of each candidate.
        assert found.num_steps == 4 * 2 * (steps + short) + 2 * 4 * 4 * 5 * 100
        # Members with the first factor are those of an ensemble that has it.
        text = "refined_ensemble(member_kl_scale=3)"
        alone, _ = of.fitted(_parse(text))
        np.testing.assert_array_equal(
            found.posterior.params[:4], alone.posterior.params
        )
        np.testing.assert_allclose(
            found.posterior.member_weights, np.repeat(weights / 4, 4)
        )
        assert found.posterior.spread == found.diagnostics["spread"]


def test_the_spread_is_the_best_of_the_weighted_mixture():
    rng = np.random.default_rng(0)
    # Draws of two ensembles, of which the second counts three times.
    draws = rng.normal(size=(2, 4, 30, 2)).astype(np.float32)
    weights = np.array([0.25, 0.75])
    mixture = np.concatenate([draws[0], *[draws[1]] * 3])
    mean = mixture.mean(axis=0)
    y = mean[:, :1] + 0.5 * rng.normal(size=(30, 1))
    data = dataclasses.replace(_numbers(30), test=(mean, y))
    scores = {
        spread: np.sum(_log_likelihood(mean + spread * (mixture - mean), y))
        + np.log(spread)
        for spread in np.arange(1, 21) / 20
    }
    found = held_out._spread(draws, weights, data)
    assert found == max(scores, key=scores.get)
    assert 0.1 < found < 1.0


@pytest.mark.slow
def test_a_homoscedastic_noise_starts_from_the_residuals_of_held_out_data(
    tmp_path,
):
    options = {"likelihood": "homoscedastic", "train_steps": 20}
    with folder_lib.Folder(tmp_path, "systems", CONFIG, {}) as folder:
        of = _repetition(_numbers(40), 0, folder, **options)
        found, _ = of.fitted(_parse("refined_ensemble"))
        inner = of.held_out()
        x, y = inner.data.test
        trained, _ = inner.fitted(_parse("deep_ensemble"))
        loc, _ = _gaussian(trained.draws(x))
        assert found.posterior.spread == 1.0
        noise = found.diagnostics["member_noise_scale"]
        error = math.sqrt(np.mean((loc - y) ** 2))
        assert noise == pytest.approx(error, rel=1e-6)
        briefly, _ = inner.fitted(_parse("deep_ensemble(map(train_steps=1))"))
        loc, _ = _gaussian(briefly.draws(x))
        noises = [noise, math.sqrt(np.mean((loc - y) ** 2)), noise, noise]
        np.testing.assert_allclose(
            found.posterior.member_weights[::2],
            _weights(inner, 1, noises) / 2,
            rtol=1e-6,
        )
        text = f"refined_ensemble(member_kl_scale=3,member_noise_scale={noise})"
        alone, _ = of.fitted(_parse(text))
        np.testing.assert_array_equal(
            found.posterior.params[:2], alone.posterior.params
        )


def _weights(inner, short, noises=None):
    """Returns weights of candidates, from draws of the held-out data."""
    x, y = inner.data.test
    values = []
    for number, (scale, start) in enumerate(CANDIDATES):
        text = f"{start.format(short=short)}member_kl_scale={scale}"
        if noises is not None:
            text += f",member_noise_scale={noises[number]}"
        one, _ = inner.fitted(_parse(f"refined_ensemble({text})"))
        values.append(_log_likelihood(one.draws(x), y))
    return ensembles.stacking_weights(values)


@pytest.mark.slow
def test_tuned_networks_have_the_best_settings_of_the_held_out_data(tmp_path):
    steps = (2, 6, 20, 60, 200)
    with folder_lib.Folder(tmp_path, "systems", CONFIG, {}) as folder:
        of = _repetition(_numbers(40), 0, folder)
        found, _ = of.fitted(_parse("tuned"))
        chosen, inner = found.diagnostics, of.held_out()
        x, y = inner.data.test
        best = []
        for scale in (0.3, 1.0):
            for count in steps:
                text = f"map(prior_scale={scale},train_steps={count})"
                one, _ = inner.fitted(_parse(text))
                loc, noise = _gaussian(one.draws(x)[0])
                # The best factor of one Gaussian is known.
                factor = np.sqrt(np.mean(((y - loc) / noise) ** 2))
                density = scipy.stats.norm(loc, factor * noise)
                best.append((density.logpdf(y).mean(), scale, count, factor))
        _, scale, count, factor = max(best)
        assert chosen["prior_scale"] == scale
        assert chosen["train_steps"] == count
        assert chosen["noise_factor"] == pytest.approx(factor, rel=1e-3)
        assert found.num_steps == 2 * sum(steps) + count
        text = f"map(prior_scale={scale},train_steps={count})"
        plain, _ = of.fitted(_parse(text))
        x = of.data.test[0]
        loc, noise = _gaussian(plain.draws(x))
        np.testing.assert_allclose(_gaussian(found.draws(x))[0], loc)
        np.testing.assert_allclose(
            _gaussian(found.draws(x))[1], factor * noise, rtol=2e-3
        )


def test_tuned_draws_have_the_noise_that_is_best_for_the_held_out_data():
    y = np.random.default_rng(0).normal(size=(50, 1))
    scale = np.full_like(y, 0.1)
    raw = losses.HeteroscedasticGaussianNLL().raw_noise(0.1)
    draws = np.concatenate([0.0 * y, 0.0 * y + raw], axis=-1)[np.newaxis]
    of = types.SimpleNamespace(
        data=types.SimpleNamespace(test=(y, y), is_regression=True),
        fitted=lambda system: (fitted.Fitted(lambda x: draws, 3, 2), None),
    )
    of.held_out = lambda: of
    found = held_out.tune(
        types.SimpleNamespace(
            config=dataclasses.replace(CONFIG, prior_scale="1.0"),
            repetition=of,
            expression=_parse("tuned"),
        )
    )
    factor = np.sqrt(np.mean(y**2)) / 0.1  # of the greatest likelihood
    assert found.diagnostics["noise_factor"] == pytest.approx(factor, rel=1e-3)
    loc, noise = _gaussian(found.draws(y))
    np.testing.assert_allclose(loc, draws[..., :1])
    np.testing.assert_allclose(noise[0], factor * scale, rtol=1e-3)
    assert found.num_steps == 3 * (2 * 5 + 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "system",
    ["deep_ensemble", "mc_dropout", "swag", "csghmc", "laplace", "flows"],
)
def test_systems_of_several_draws_are_tuned(tmp_path, system):
    options = {
        "train_steps": 30,
        "swag_snapshots": 3,
        "swag_rank": 2,
        "flow_epochs": 1,
    }
    if system in ("laplace", "flows"):
        options["likelihood"] = "homoscedastic"
    with folder_lib.Folder(tmp_path, "systems", CONFIG, {}) as folder:
        of = _repetition(_numbers(40), 0, folder, **options)
        found, _ = of.fitted(_parse(f"tuned({system})"))
        assert np.all(np.isfinite(found.draws(of.data.test[0])))
        assert found.diagnostics["noise_factor"] > 0.0


def test_classifiers_are_tuned_without_a_noise(tmp_path, monkeypatch):
    monkeypatch.setattr(held_out, "_STEP_PARTS", (0.3, 1.0))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    data = dataset.Dataset(
        train=(x, y), validation=(x[:0], y[:0]), test=(x, y), num_classes=2
    )
    config = dataclasses.replace(CONFIG, train_steps=20)
    config = config.with_defaults(config.after_data("table", (2,), 30))
    with folder_lib.Folder(tmp_path, "systems", CONFIG, {}) as folder:
        of = repetition.Repetition(config, data, 0, folder)
        found, _ = of.fitted(_parse("tuned"))
        assert found.diagnostics["noise_factor"] == 1.0
        chosen = found.diagnostics
        text = "map(prior_scale={prior_scale},train_steps={train_steps})"
        plain, _ = of.fitted(_parse(text.format(**chosen)))
        np.testing.assert_array_equal(found.draws(x), plain.draws(x))
        scores, inner = {}, of.held_out()
        x, y = inner.data.test
        for scale in (0.3, 1.0):
            for count in (6, 20):
                options = {"prior_scale": scale, "train_steps": count}
                one, _ = inner.fitted(_parse(text.format(**options)))
                log_probs = scipy.special.log_softmax(one.draws(x)[0], -1)
                score = np.mean(log_probs[np.arange(len(y)), y])
                scores[scale, count] = score
        best = max(scores, key=scores.get)
        assert best == (chosen["prior_scale"], chosen["train_steps"])
        tried = 2 * (6 + 20)
        assert found.num_steps == tried + chosen["train_steps"]


def test_posteriors_are_not_tuned():
    with pytest.raises(ValueError, match="tuned needs a network of point"):
        _parse("tuned(vi)")
    assert registry.title(_parse("tuned(mc_dropout)")) == "MC dropout, tuned"
