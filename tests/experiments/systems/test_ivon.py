"""Tests of networks that IVON trains, and of their refinement."""

import dataclasses

import numpy as np
import pytest

import tfp_refine as tfr
from tfp_refine.experiments import bench
from tfp_refine.experiments import compare
from tfp_refine.experiments.measures import fits

CONFIG = compare.Config(
    systems=("ivon", "refined(ivon)"), hidden=(4,), train_steps=30,
    segments=2, num_samples=4, num_members=2, refine_steps=5,
    num_eval_samples=2, seeds=1, progress=False,
)  # fmt: skip


def run(path):
    config = dataclasses.replace(CONFIG, output_dir=str(path))
    return compare.run(config).rows.set_index(["system", "metric"])["value"]


@pytest.mark.slow
def test_ivon_is_trained_and_refined(tmp_path):
    found = run(tmp_path)
    # Means and scales; those of two members.
    costs = [found[s]["kilobytes"] for s in ("ivon", "refined(ivon)")]
    assert costs[1] == 2 * costs[0]
    assert found["refined(ivon)"]["elbo_init"] == pytest.approx(
        found["ivon"]["elbo"], rel=0.2
    )


@pytest.mark.slow
def test_ivon_is_trained_on_from_its_posterior(tmp_path):
    config = dataclasses.replace(
        CONFIG, systems=("longer(ivon)",), ivon_hessian_init=1000.0,
        segments=1, num_members=1, refine_steps=1, variance_ratios=("0.5",),
        output_dir=str(tmp_path),
    )  # fmt: skip
    scales, optimizers = {}, {}

    def observe(fit, model, entry):
        scales[str(fit.expression)] = tfr.posterior(model).scale
        optimizers[str(fit.expression)] = model.optimizer
        return {}

    made = bench.Bench("compare", config, (fits.COSTS,), observe)
    made.run(lambda results: None)
    # In one step, scales cannot change more; far from those of the start.
    scale, longer = scales["ivon"], scales["longer(ivon)"]
    assert np.all(longer < 2.0 * scale)
    assert np.mean(scale) > 3.0 / np.sqrt(1000.0 * 246)
    # A learning rate is relative to the precision at the start, a limit is not.
    first, second = optimizers["ivon"], optimizers["longer(ivon)"]
    np.testing.assert_allclose(
        second.hessian_init, np.exp(np.mean(-2.0 * np.log(scale))) / 246, 1e-3
    )
    np.testing.assert_allclose(
        second.clip_radius * second.hessian_init,
        first.clip_radius * first.hessian_init,
    )


@pytest.mark.slow
def test_a_run_with_ivon_is_repeatable(tmp_path):
    first, second = (run(tmp_path / name) for name in ("first", "second"))
    names = ["nll", "rmse", "elbo", "kilobytes"]
    for system in ("ivon", "refined(ivon)"):
        np.testing.assert_array_equal(
            first[system][names], second[system][names]
        )


def test_the_prior_of_ivon_has_one_scale(tmp_path):
    config = dataclasses.replace(
        CONFIG, prior_scale="fan_in", output_dir=str(tmp_path)
    )
    with pytest.raises(ValueError, match="needs a --prior_scale"):
        compare.run(config)
