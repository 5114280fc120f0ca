"""The UCI experiment, run as users run it: as a command."""

import re

import numpy as np
import pytest

from tests.support import experiment_command
from tfp_refine import posteriors

COMMAND = experiment_command.Command(
    "uci",
    "--dataset=yacht", "--splits=2", "--train_steps=300", "--steps=20",
    "--num_members=3", "--variance_ratios=0.7,0.5", "--num_samples=12",
    "--hidden=8,4", "--noprogress",
)  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("uci")
    process = COMMAND.run(f"--output_dir={directory}")
    assert process.returncode == 0, process.stderr
    return directory, process.stdout


def test_prints_one_table_beside_the_papers(finished):
    _, output = finished
    for text in ("VI ", "VI, as long", "refined VI", "MLL (3 draws)", "-1.626"):
        assert text in output


def test_record_holds_every_method(finished):
    directory, _ = finished
    results = experiment_command.results(directory)
    assert results["flags"]["train_steps"] == 300
    assert results["metrics"].keys() == {"vi", "control", "refined_vi"}
    assert len(results["splits"]) == 2
    for method, metrics in results["metrics"].items():
        assert {"mll", "mll_3_draws", "rmse", "elbo"} <= metrics.keys()
        values = [split[method]["mll"] for split in results["splits"]]
        np.testing.assert_allclose(metrics["mll"], np.mean(values))
        np.testing.assert_allclose(metrics["mll_std"], np.std(values, ddof=1))
        assert results["wall_seconds"][method] > 0


def test_figures_are_in_original_units(finished):
    # Yacht's resistance has a standard deviation of 15: a model that has
    # learned little has an error of that size, and a likelihood to match.
    directory, _ = finished
    vi = experiment_command.results(directory)["metrics"]["vi"]
    assert 5 < vi["rmse"] < 20
    assert -5.0 < vi["mll"] < -2.5
    # In standardized units it would be 246 * log(15) = 666 nats more.
    assert -246 * 8 < vi["elbo"] < -246 * 4


def test_staircase_is_drawn_and_the_ensemble_saved(finished):
    directory, _ = finished
    assert (directory / "elbo_staircase.png").stat().st_size > 10000
    ensemble = posteriors.load_posterior(
        directory / "split_1" / "refined_vi" / "ensemble.posterior"
    )
    assert ensemble.num_members == 3


@pytest.mark.slow
def test_killed_run_ends_with_the_same_numbers(finished, tmp_path):
    directory, _ = finished
    COMMAND.kill_when(
        (tmp_path / "split_0" / "vi.json").exists, f"--output_dir={tmp_path}"
    )
    assert not (tmp_path / "results.json").exists()
    assert COMMAND.run(f"--output_dir={tmp_path}").returncode == 0
    one, other = (
        experiment_command.reproducible(experiment_command.results(folder))
        for folder in (directory, tmp_path)
    )
    assert one == other


WRONG = {
    "yacht": ["--dataset=nile"],
    "data_dir": ["--dataset=boston"],
    "--method must name some of vi, control": ["--method=vi,magic"],
    "--hidden must be .*8,many": ["--hidden=8,many"],
    "`variance_ratios`": ["--variance_ratios=0.7,1.5"],
    "must sum to at most 1": ["--variance_fractions=0.7,0.7"],
    "given": ["--split_kind=given"],
    "Unknown command line flag": ["--no_such_flag"],
    "steps": ["--steps=0"],
    "`initial_scale`": ["--initial_scale=0"],
    "multiple of --num_members": ["--num_samples=10"],
}


def test_wrong_flags_are_explained(tmp_path):
    folder = tmp_path / "new"
    messages = COMMAND.messages(
        [[f"--output_dir={folder}", *flags] for flags in WRONG.values()]
    )
    for expected, message in zip(WRONG, messages, strict=True):
        assert re.search(expected, message or ""), (expected, message)
    assert not (folder / "flags.json").exists()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("stray", "Unknown arguments: stray"),
        ("--dataset=nile", "uci: .*yacht"),
    ],
)
def test_what_is_wrong_is_told_without_a_stack_trace(argument, message):
    process = COMMAND.run(argument)
    assert process.returncode != 0
    text = process.stderr + process.stdout
    assert "Traceback" not in text
    assert re.search(message, text)


@pytest.mark.slow
def test_methods_and_splits_can_be_added_later(finished, tmp_path):
    directory, _ = finished
    run = [f"--output_dir={tmp_path}"]
    assert COMMAND.run(*run, "--method=vi", "--splits=1").returncode == 0
    assert COMMAND.run(*run).returncode == 0
    one, other = (
        experiment_command.results(folder)["metrics"]
        for folder in (directory, tmp_path)
    )
    assert one == other


@pytest.mark.slow
def test_multiplicative_flows_are_trained(tmp_path):
    process = COMMAND.run(
        f"--output_dir={tmp_path}", "--method=vi,mnf", "--splits=1",
        "--train_steps=1500", "--flow_units=5", "--auxiliary_flow_units=5",
        "--learning_rate=3e-3",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "MNF" in process.stdout
    metrics = experiment_command.results(tmp_path)["metrics"]
    assert list(metrics) == ["vi", "mnf"]
    # The standard deviation of the target is 15.
    assert metrics["mnf"]["rmse"] < 12
    assert np.isfinite(metrics["mnf"]["elbo"])


@pytest.mark.slow
def test_data_that_changed_is_noticed(tmp_path):
    folder = tmp_path / "data" / "mine"
    folder.mkdir(parents=True)
    (folder / "index_features.txt").write_text("0\n")
    (folder / "index_target.txt").write_text("1\n")
    for slope, code in ((1.0, 0), (2.0, 1)):
        rows = [f"{x} {slope * x}" for x in range(20)]
        (folder / "data.txt").write_text("\n".join(rows))
        process = COMMAND.run(
            "--dataset=mine", f"--data_dir={tmp_path / 'data'}",
            f"--output_dir={tmp_path / 'out'}", "--method=vi",
            "--train_steps=10",
        )  # fmt: skip
        assert process.returncode == code, process.stderr
    assert "--data: " in process.stderr


def test_output_folder_of_other_flags_is_refused(finished):
    directory, _ = finished
    process = COMMAND.run(f"--output_dir={directory}", "--seed=1")
    assert process.returncode != 0
    assert "--seed: 0 there, 1 now" in process.stderr
    assert "Traceback" not in process.stderr
