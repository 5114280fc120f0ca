"""The experiment with four modes, run from Python and as a command."""

import dataclasses
import json

import pandas as pd
import pytest

from tests.support import program_in_process
from tfp_refine.experiments import four_modes
from tfp_refine.experiments.harness import page

QUICK = four_modes.Config(
    num_members=3, refine_steps=4, num_eval_samples=5, progress=False
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("four_modes")
    config = dataclasses.replace(QUICK, output_dir=path)
    return config, four_modes.run(config)


@pytest.mark.slow
def test_results_are_the_bounds(finished):
    config, results = finished
    values = results.rows.set_index("metric")["value"]
    assert list(values.index) == [
        "elbo_init", "elbo_aux", "elbo_aux_standard_error", "elbo_ref",
        "log_evidence",
    ]  # fmt: skip
    assert values["elbo_init"] == pytest.approx(-1.7945, abs=1e-4)
    assert values["elbo_ref"] < values["log_evidence"]
    saved = pd.read_csv(results.path / "results.csv")
    pd.testing.assert_frame_equal(saved, results.rows)
    contents = json.loads((results.path / "results.json").read_text())
    assert contents["config"]["num_members"] == {"value": 3, "type": "int"}
    if page.can_plot():
        assert (results.path / "four_modes.png").stat().st_size > 10000


@pytest.mark.slow
def test_a_second_run_computes_nothing_anew(finished):
    config, results = finished
    record = results.path / "refined.json"
    before = record.stat().st_mtime_ns
    again = four_modes.run(config)
    pd.testing.assert_frame_equal(again.rows, results.rows)
    assert record.stat().st_mtime_ns == before
    with pytest.raises(ValueError, match="--refine_steps: 5 now, 4 there"):
        four_modes.run(dataclasses.replace(config, refine_steps=5))


@pytest.mark.parametrize(
    "ratios", [("0",), ("1",), ("wide",), ("0.5*many",)], ids=str
)
def test_bad_variance_ratios_are_refused(ratios):
    with pytest.raises(ValueError, match="--variance_ratios must hold"):
        dataclasses.replace(QUICK, variance_ratios=ratios)


def test_command_prints_the_bounds(finished, capsys):
    config, results = finished
    assert program_in_process.run("four_modes", *config.flags()) == 0
    assert "ELBO of the mixture" in capsys.readouterr().out
