"""The UCI experiment, run as users run it: as a command."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

_QUICK = [
    "--dataset=yacht", "--splits=2", "--train_steps=300", "--steps=20",
    "--num_members=3", "--variance_ratios=0.7,0.5", "--num_samples=12",
    "--hidden=8,4", "--noprogress",
]  # fmt: skip


def _command(*arguments):
    return [
        sys.executable, "-m", "tfp_refine.experiments.uci", *_QUICK, *arguments
    ]  # fmt: skip


def _run(*arguments):
    return subprocess.run(
        _command(*arguments), capture_output=True, text=True, check=False
    )


def _without_times(results):
    if isinstance(results, dict):
        return {
            key: _without_times(value)
            for key, value in results.items()
            if "seconds" not in key
        }
    if isinstance(results, list):
        return [_without_times(value) for value in results]
    return results


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("uci")
    process = _run(f"--output_dir={directory}")
    assert process.returncode == 0, process.stderr
    return directory, process.stdout


def test_prints_one_table_beside_the_papers(finished):
    _, output = finished
    for text in ("VI ", "VI, as long", "refined VI", "MLL (3 draws)", "-1.626"):
        assert text in output


def test_record_holds_every_method(finished):
    directory, _ = finished
    results = json.loads((directory / "results.json").read_text())
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
    vi = json.loads((directory / "results.json").read_text())["metrics"]["vi"]
    assert 5 < vi["rmse"] < 20
    assert -5.0 < vi["mll"] < -2.5
    # In standardized units it would be 246 * log(15) = 666 nats more.
    assert -246 * 8 < vi["elbo"] < -246 * 4


def test_staircase_is_drawn_and_the_ensemble_saved(finished):
    directory, _ = finished
    assert (directory / "elbo_staircase.png").stat().st_size > 10000
    assert (
        directory / "split_1" / "refined_vi" / "ensemble" / "members.npz"
    ).exists()


def test_killed_run_ends_with_the_same_numbers(finished, tmp_path):
    directory, _ = finished
    process = subprocess.Popen(
        _command(f"--output_dir={tmp_path}"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while not (tmp_path / "split_0" / "vi.json").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "results.json").exists()
    assert _run(f"--output_dir={tmp_path}").returncode == 0
    one, other = (
        _without_times(json.loads((folder / "results.json").read_text()))
        for folder in (directory, tmp_path)
    )
    assert one == other


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset=nile"], "yacht"),
        (["--dataset=boston"], "data_dir"),
        (["--method=vi,magic"], "--method must name some of vi, control"),
        (["--hidden=8,many"], "--hidden must be .*8,many"),
        (["--variance_ratios=0.7,1.5"], "`variance_ratios`"),
        (["--variance_fractions=0.7,0.7"], "must sum to at most 1"),
        (["--split_kind=given"], "given"),
        (["--no_such_flag"], "Unknown command line flag"),
        (["stray"], "Unknown arguments: stray"),
        (["--steps=0"], "steps"),
    ],
)
def test_wrong_flags_are_explained_without_a_stack_trace(
    arguments, message, tmp_path
):
    process = _run(f"--output_dir={tmp_path / 'new'}", *arguments)
    assert process.returncode != 0
    assert not (tmp_path / "new" / "flags.json").exists()
    text = process.stderr + process.stdout
    assert "Traceback" not in text
    assert re.search(message, text)


def test_output_folder_of_other_flags_is_refused(finished):
    directory, _ = finished
    process = _run(f"--output_dir={directory}", "--seed=1")
    assert process.returncode != 0
    assert "--seed: 0 there, 1 now" in process.stderr
    assert "Traceback" not in process.stderr
