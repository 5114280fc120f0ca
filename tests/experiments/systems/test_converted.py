"""Tests of networks that get posteriors after their training."""

import dataclasses

import numpy as np
import pytest

from tfp_refine.experiments import compare

pytestmark = pytest.mark.slow
SYSTEMS = ("map", "continued", "converted", "refined(converted)")
CONFIG = compare.Config(
    dataset="iris", systems=SYSTEMS, hidden=(4,), train_steps=20,
    learning_rate_schedule="constant", num_samples=4, num_members=2,
    refine_steps=2, num_eval_samples=2, seeds=1, segments=1, unseen=(),
    progress=False,
)  # fmt: skip


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("converted")
    found = compare.run(dataclasses.replace(CONFIG, output_dir=str(path)))
    assert found.titles["refined(converted)"] == "refined MAP, converted"
    return found.rows.set_index(["system", "metric"])["value"]


def test_all_take_as_many_steps_after_the_first_training(rows):
    steps = rows.xs("num_steps", level="metric")
    assert dict(steps) == {
        "map": 20, "continued": 40, "converted": 40,
        "refined(converted)": 40 + 2 * 5 * 2,
    }  # fmt: skip
    draws = rows.xs("num_draws", level="metric")
    assert dict(draws) == dict(zip(SYSTEMS, (1, 1, 4, 4), strict=True))


def test_a_converted_network_has_scales_and_a_bound(rows):
    assert rows["converted", "kilobytes"] == 2 * rows["map", "kilobytes"]
    assert np.isfinite(rows["converted", "elbo"])
    assert ("map", "elbo") not in rows
    assert rows["refined(converted)", "elbo"] > rows["converted", "elbo"]


def test_training_goes_on_from_the_weights(rows):
    nll = rows.xs("nll", level="metric")
    assert nll["continued"] < nll["map"]
    assert nll["converted"] < nll["map"]
    assert nll["converted"] != nll["continued"]
