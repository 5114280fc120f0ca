"""Tests of deep ensembles whose members are refined."""

import dataclasses

import numpy as np
import pytest

import tfp_refine as tfr
from tfp_refine.experiments import compare

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


def test_ensembles_are_refined_in_more_steps_by_default(tmp_path):
    config = dataclasses.replace(
        CONFIG,
        systems=("longer", "refined", WARM),
        train_steps=3,
        refine_steps=None,
        variance_ratios=("0.5*3",),
        output_dir=str(tmp_path),
    )
    rows = compare.run(config).rows.set_index(["metric", "system"])["value"]
    steps = rows["num_steps"]
    # Two members and three variables.
    assert steps[WARM] == 2 * 3 + 2 * 3 * 1000
    assert steps["refined"] == steps["longer"] == 3 + 2 * 3 * 200


@pytest.mark.slow
def test_the_noise_that_a_network_has_learned_is_refined_too(tmp_path):
    config = dataclasses.replace(
        CONFIG,
        likelihood="homoscedastic",
        systems=(WARM,),
        output_dir=str(tmp_path),
    )
    compare.run(config)
    (path,) = tmp_path.glob("seed_0/refined_ensemble*/fit/*.posterior")
    (noise,) = tfr.load_posterior(path).view.deterministic_weights
    assert "scale" in noise.path


def test_the_noise_starts_where_it_is_told_to(tmp_path):
    # One step of 1e-4 for each auxiliary variable moves it little.
    config = dataclasses.replace(
        CONFIG,
        likelihood="homoscedastic",
        refine_steps=1,
        refine_learning_rate=1e-4,
        output_dir=str(tmp_path),
        systems=("refined_ensemble(member_kl_scale=1,member_noise_scale=0.7)",),
    )
    compare.run(config)
    (path,) = tmp_path.glob("seed_0/refined_ensemble*/fit/*.posterior")
    found = tfr.load_posterior(path)
    raw = found.params[:, 0, found.view.num_weights :]
    np.testing.assert_allclose(np.logaddexp(0.0, raw), 0.7, atol=1e-3)
    assert raw.shape == (2, 1)


@pytest.mark.parametrize(
    "options",
    [{}, {"likelihood": "homoscedastic", "learn_noise": False}],
    ids=["heteroscedastic", "fixed"],
)
def test_only_a_learned_noise_of_one_size_has_a_start(tmp_path, options):
    config = dataclasses.replace(
        CONFIG,
        systems=("refined_ensemble(member_noise_scale=0.7)",),
        output_dir=str(tmp_path),
        **options,
    )
    with pytest.raises(ValueError, match="--member_noise_scale is for.*0.7"):
        compare.run(config)


@pytest.mark.slow
def test_every_member_must_be_drawn_as_often(tmp_path):
    config = dataclasses.replace(
        CONFIG, num_samples=5, output_dir=str(tmp_path)
    )
    found = compare.run(config)
    assert "multiple of --num_members" in found.reasons[WARM]
