"""Tests of deep ensembles whose members are refined."""

import dataclasses

import numpy as np
import pytest

from tfp_refine import datasets
from tfp_refine import losses
from tfp_refine import metrics
from tfp_refine.experiments import compare
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.systems import registry
from tfp_refine.experiments.systems import repetition

CONFIG = compare.Config(
    systems=(
        "deep_ensemble", "refined_ensemble(member_kl_scale=1)",
        "refined_ensemble(member_kl_scale=0.01)",
    ), hidden=(4,),
    train_steps=200, likelihood="heteroscedastic", num_samples=4,
    num_members=2, refine_steps=20, num_eval_samples=2, seeds=1,
    progress=False,
)  # fmt: skip
WARM = CONFIG.systems[1]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("refined_ensemble")
    found = compare.run(dataclasses.replace(CONFIG, output_dir=str(path)))
    return found.rows.set_index(["system", "metric"])["value"]


@pytest.mark.slow
def test_it_costs_means_and_scales_and_more_steps(rows):
    first, second = rows["deep_ensemble"], rows[WARM]
    assert second["kilobytes"] == 2 * first["kilobytes"]
    assert second["num_steps"] == first["num_steps"] + 2 * 5 * 20


def test_its_bound_rises(rows):
    found = rows[WARM]
    assert found["elbo"] > found["elbo_init"]
    assert np.isfinite(found["nll"])


def test_a_cold_posterior_is_narrower_and_has_no_bound(rows):
    warm = rows[WARM]
    cold = rows["refined_ensemble(member_kl_scale=0.01)"]
    assert cold["epistemic"] < warm["epistemic"]
    assert "elbo" in warm
    assert "elbo" not in cold


@pytest.mark.slow
def test_every_member_must_be_drawn_as_often(tmp_path):
    config = dataclasses.replace(
        CONFIG, num_samples=5, output_dir=str(tmp_path)
    )
    found = compare.run(config)
    assert "multiple of --num_members" in found.reasons[WARM]


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
    config = dataclasses.replace(CONFIG, seed=3, **options)
    found = config.after_data("regression", (2,), len(data.train[0]))
    return repetition.Repetition(
        config.with_defaults(found), data, number, folder
    )


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
    ("noise", "steps", "allowed"),
    [(0.0, 1000, {0.1, 0.03}), (0.5, 5000, {3.0, 1.0})],
    ids=["no noise", "much noise"],
)
def test_held_out_data_choose_the_factor(tmp_path, noise, steps, allowed):
    data = _numbers(60, noise)
    options = {"hidden": (20,), "train_steps": steps, "refine_steps": 100}
    with folder_lib.Folder(tmp_path, "systems", CONFIG, {}) as folder:
        of = _repetition(data, 0, folder, **options)
        expression = registry.parse("refined_ensemble", fields.Bench)
        found, costs = of.fitted(expression)
        chosen = found.diagnostics["member_kl_scale"]
        assert chosen in allowed
        scores, inner = {}, of.held_out()
        x, y = inner.data.test
        for scale in (3.0, 1.0, 0.3, 0.1, 0.03):
            text = f"refined_ensemble(member_kl_scale={scale})"
            one, _ = inner.fitted(registry.parse(text, fields.Bench))
            loss = losses.HeteroscedasticGaussianNLL()
            given = map(np.asarray, loss.loc_and_scale(one.draws(x)))
            scores[scale] = metrics.gaussian_negative_log_likelihood(y, *given)
        assert chosen == min(scores, key=scores.get)
        # Two trainings, the refinement, and one for each factor.
        assert found.num_steps == 2 * (2 * steps) + 6 * 2 * 5 * 100
        text = f"refined_ensemble(member_kl_scale={chosen})"
        alone, _ = of.fitted(registry.parse(text, fields.Bench))
        np.testing.assert_array_equal(found.draws(x), alone.draws(x))
