"""The comparison, run as users run it, and its flags."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tests.support import experiment_command

QUICK = (
    "--train_steps=40", "--steps=4", "--num_members=2", "--num_samples=10",
    "--variance_ratios=0.5", "--swag_snapshots=4", "--swag_rank=3",
    "--flows=2", "--nuts_warmup=8", "--nuts_samples=8", "--nuts_chains=2",
    "--nuts_max_tree_depth=3", "--cycles=2", "--samples_per_cycle=2",
    "--flow_length=1", "--auxiliary_flow_length=1",
    "--flow_units=4", "--auxiliary_flow_units=4", "--noprogress",
)  # fmt: skip
COMMAND = experiment_command.Command("compare", *QUICK)
METHODS = ["map", "map_temp", "deep_ensemble", "swag", "vi", "refined_vi"]
APPLIED = [name for name in METHODS if name != "map_temp"]


def yacht(directory, *flags):
    return (
        f"--output_dir={directory}", f"--methods={','.join(METHODS)}", *flags
    )  # fmt: skip


def scores(directory):
    """Reads the test metrics of the first repetition, by system."""
    found = {}
    for path in directory.glob("seed_0/*/result_*.json"):
        result = json.loads(path.read_text())
        name = path.parts[-2].rpartition("_")[0]
        found[name] = [result[key] for key in ("nll", "rmse", "crps")]
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("compare")
    process = COMMAND.run(*yacht(directory))
    assert process.returncode == 0, process.stderr
    return directory, process.stdout


@pytest.mark.slow
def test_each_system_has_its_metrics_and_costs(finished):
    directory, _ = finished
    found = experiment_command.results(directory)
    assert list(found["metrics"]) == APPLIED
    for name in APPLIED:
        assert len(found["metrics"][name]) == 2
        for result in found["metrics"][name]:
            assert 0.0 < result["rmse"] < 50.0
            assert 0.0 <= result["coverage"] <= 1.0
            assert result["fit_seconds"] > 0.0
            assert result["kilobytes"] > 0.0
    first = {n: found["metrics"][n][0] for n in APPLIED}
    draws = {n: r["num_draws"] for n, r in first.items()}
    assert draws == {
        "map": 1, "deep_ensemble": 2, "swag": 10, "vi": 10, "refined_vi": 10
    }  # fmt: skip
    steps = {n: r["num_steps"] for n, r in first.items()}
    # 246 training examples are 3 batches of 64: SWAG takes 4 times as many.
    assert steps == {
        "map": 40, "deep_ensemble": 80, "swag": 52, "vi": 40, "refined_vi": 48
    }  # fmt: skip
    # What starts from another takes its time too, but not at once.
    own = {
        name: json.loads(
            next(directory.glob(f"seed_0/{name}_*/costs.json")).read_text()
        )
        for name in ("map", "swag")
    }
    np.testing.assert_allclose(
        first["swag"]["fit_seconds"],
        own["map"]["fit_seconds"] + own["swag"]["fit_seconds"],
    )
    if "memory" in first["swag"]:
        assert first["swag"]["memory"] == max(
            own["map"]["memory"], own["swag"]["memory"]
        )
    assert first["swag"]["fit_seconds"] > first["map"]["fit_seconds"]
    assert first["refined_vi"]["fit_seconds"] > first["vi"]["fit_seconds"]


def test_the_report_is_what_a_reader_wants(finished):
    directory, output = finished
    report = (directory / "report.md").read_text()
    page = (directory / "report.html").read_text()
    for text in (report, page):
        for part in (
            "MAP, temperature: not applied. Temperature scaling is for logits",
            "Means ± standard deviations over 2 seeds",
            "Havasi et al., 2021, Table 1",
            "ensembles.deep_ensemble",
            "2 repetitions",
        ):
            assert part in text
    rows = [line for line in report.splitlines() if line.startswith("| VI |")]
    assert "±" in rows[0]
    assert "**" in report
    assert rows[0] in output
    for name in ("nll", "learning_curves", "posteriors"):
        assert (directory / f"{name}.png").stat().st_size > 5000
    assert page.count("data:image/png") == 3


def test_repetitions_differ(finished):
    found = experiment_command.results(finished[0])["metrics"]
    for name in APPLIED:
        first, second = found[name]
        assert first["rmse"] != second["rmse"]


@pytest.mark.slow
def test_nothing_is_made_anew_and_systems_are_added(finished):
    directory, _ = finished
    before = {
        path: path.stat().st_mtime_ns
        for path in directory.glob("seed_*/*/*.json")
    }
    process = COMMAND.run(*yacht(directory, "--methods=vi,cm", "--seeds=3"))
    assert process.returncode == 0, process.stderr
    assert all(p.stat().st_mtime_ns == t for p, t in before.items())
    found = experiment_command.results(directory)["metrics"]
    # What an earlier start has found stays on the page.
    assert {name: len(runs) for name, runs in found.items()} == {
        **dict.fromkeys(APPLIED, 2), "vi": 3, "cm": 3
    }  # fmt: skip
    assert "MAP (2 of 3 seeds)" in process.stdout


@pytest.mark.slow
def test_flags_of_a_system_make_only_that_one_anew(finished):
    directory, _ = finished
    before = set(directory.glob("seed_0/*"))
    process = COMMAND.run(*yacht(directory, "--swag_snapshots=5", "--seeds=1"))
    assert process.returncode == 0, process.stderr
    (added,) = set(directory.glob("seed_0/*")) - before
    assert added.name.startswith("swag_")
    assert "One seed: how much it matters is not known." in process.stdout
    assert "±" not in process.stdout


@pytest.mark.slow
def test_other_data_or_training_needs_another_folder(finished):
    directory, _ = finished
    flags = ("--train_steps=41", "--seed=1", "--dataset=energy")
    for message in COMMAND.messages([yacht(directory, f) for f in flags]):
        assert "holds results of other flags or data" in message


@pytest.mark.slow
def test_a_killed_run_ends_as_one_that_was_not(finished, tmp_path):
    directory, _ = finished

    def has_begun_to_refine():
        return any(tmp_path.glob("seed_0/refined_vi_*/fit"))

    COMMAND.kill_when(has_begun_to_refine, *yacht(tmp_path, "--seeds=1"))
    process = COMMAND.run(*yacht(tmp_path, "--seeds=1"))
    assert process.returncode == 0, process.stderr

    found, expected = scores(tmp_path), scores(directory)
    assert set(found) == set(APPLIED)
    for name in APPLIED:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
    results = experiment_command.results(tmp_path)["metrics"]
    # How long the first start had refined is not known.
    assert "fit_seconds" not in results["refined_vi"][0]
    assert results["vi"][0]["fit_seconds"] > 0.0


@pytest.mark.slow
def test_a_failure_does_not_lose_the_others(tmp_path):
    process = COMMAND.run(
        *yacht(
            tmp_path, "--seeds=1", "--methods=map,swag",
            "--sgd_learning_rate=1e9",
        )
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "| MAP |" in process.stdout
    assert "| SWAG | - |" in process.stdout
    assert "SWAG: failed. FloatingPointError: The loss" in process.stdout
    report = (tmp_path / "report.md").read_text()
    assert "SWAG: failed." in report
    failures = experiment_command.results(tmp_path)["failures"]
    assert "was not finite at step" in failures["swag"]["0"]


@pytest.mark.slow
def test_where_all_fail_each_repetition_is_tried_and_all_is_told(tmp_path):
    process = COMMAND.run(
        *yacht(
            tmp_path, "--methods=map,swag,laplace", "--train_steps=10",
            "--learning_rate=1e30",
        )
    )  # fmt: skip
    assert process.returncode == 1
    assert "All of --methods failed. map: FloatingPointError" in process.stderr
    assert "Traceback" not in process.stderr
    # What a system starts from is not trained again for each.
    assert process.stderr.count("Repetition 0: map") == 1
    assert process.stderr.count("Repetition 1: map") == 1
    report = (tmp_path / "report.md").read_text()
    assert "SWAG: failed. ValueError: map failed before" in report


@pytest.mark.slow
def test_samples_are_kept_for_other_evaluations(tmp_path):
    flags = yacht(tmp_path, "--seeds=1", "--methods=laplace_refined,nuts")
    process = COMMAND.run(*flags)
    assert process.returncode == 0, process.stderr
    assert "NUTS, all layers: the chains have not mixed" in process.stdout
    files = [*tmp_path.glob("seed_0/*/fit/laplace.posterior")]
    assert len(files) == 2
    before = [path.stat().st_mtime_ns for path in files]
    process = COMMAND.run(*flags, "--num_samples=20")
    assert process.returncode == 0, process.stderr
    assert [path.stat().st_mtime_ns for path in files] == before
    assert len([*tmp_path.glob("seed_0/nuts_*/result_*.json")]) == 2


@pytest.mark.slow
def test_what_a_likelihood_rules_out_is_said(tmp_path):
    process = COMMAND.run(
        *yacht(
            tmp_path, "--seeds=1", "--methods=map,laplace,laplace_refined",
            "--likelihood=heteroscedastic",
        )
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "Laplace, last layer: not applied. Its likelihood" in process.stdout
    assert "| Laplace, refined by flows | - |" in process.stdout


@pytest.mark.slow
def test_images_are_compared_away_from_their_training_data_too(tmp_path):
    process = COMMAND.run(
        f"--output_dir={tmp_path}", "--dataset=digits", "--seeds=1",
        "--methods=map,map_temp,vi", "--rotations=30,60",
        "--corruptions=gaussian_noise", "--shift_examples=50",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    report = (tmp_path / "report.md").read_text()
    for part in (
        "AUROC turned", "FPR95 shuffled", "AURC", "|  | 30 | 60 |",
        "NLL of test data, changed by rotation:", "|  | 1 | 2 | 3 | 4 | 5 |",
        "ECE of test data, changed by gaussian_noise:",
    ):  # fmt: skip
        assert part in report
    for name in ("entropies", "reliability", "shifts", "learning_curves"):
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
    (path,) = tmp_path.glob("seed_0/map_[0-9a-f]*/result_*.json")
    curve = json.loads(path.read_text())["curve"]
    assert len(curve["step"]) == len(curve["loss"]) == len(curve["val_nll"])
    found = experiment_command.results(tmp_path)["metrics"]
    (trained,), (scaled,) = found["map"], found["map_temp"]
    assert scaled["accuracy"] == trained["accuracy"]
    assert scaled["nll"] != trained["nll"]


def test_bad_flags_are_told_before_any_work(tmp_path):
    cases = {
        "--methods=map,magic": "--methods must name some of all, map, map_temp",
        "--methods=": "--methods must name some of all",
        "--methods=map_temp": "None of --methods can be applied",
        "--corruptions=fog": "of --kind=regression, has no use for --corrup",
        "--validation_fraction=0.2": "has no use for --validation_fraction",
        "--dataset=nowhere": "nowhere",
        "--kind=table": "yacht",
        "--model=lenet5": "--kind=regression has --model=mlp",
        "--hidden=0": "--hidden must hold positive numbers",
        "--dropout=1": "--dropout",
        "--learning_rate=0": "--learning_rate",
        "--prior_scale=0": "--prior_scale",
        "--alpha_reg=2": "--alpha_reg",
        "--swag_rank=50": "--swag_rank must not exceed --swag_snapshots",
        "--num_samples=3": "--num_samples must be a multiple",
        "--variance_ratios=2": "ratios",
    }
    messages = COMMAND.messages(
        [[f"--output_dir={tmp_path}/none", flag] for flag in cases]
    )
    for message, (flag, expected) in zip(messages, cases.items(), strict=True):
        assert message is not None, flag
        assert expected in message, flag
    assert not (tmp_path / "none").exists()


def test_the_registry_is_consistent():
    code = """
from absl import flags
from tfp_refine.experiments import compare, compare_systems
import pathlib
import tfp_refine as tfr
import keras
flags.FLAGS(["x"])
page = pathlib.Path("docs/results.md").read_text().splitlines()
systems = compare_systems.SYSTEMS
assert len({s.title for s in systems.values()}) == len(systems)
order = list(systems)
for name, system in systems.items():
    for flag in compare_systems.flags_of(name):
        flags.FLAGS[flag]
    for base in system.bases:
        assert order.index(base) < order.index(name)
    found = tfr
    if system.where.startswith("keras"):
        found = keras
    elif system.where.startswith("LastLayer"):
        found = tfr.laplace
    for part in system.where.removeprefix("keras.").split("."):
        found = getattr(found, part)
    (row,) = [line for line in page if f"`compare --methods={name}`" in line]
    assert row.startswith(f"| {system.title} | `"), row
    assert f"{system.where}` |" in row, row
"""
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["yacht", "iris", "digits"])
def test_all_systems_run(tmp_path, dataset):
    process = COMMAND.run(
        f"--output_dir={tmp_path}", f"--dataset={dataset}", "--seeds=1",
        "--sgd_learning_rate=1e-4",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    found = experiment_command.results(tmp_path)
    assert found["failures"] == {}
    assert list(found["not_applied"]) == {
        "yacht": ["map_temp"], "iris": [], "digits": ["nuts"]
    }[dataset]  # fmt: skip
    assert len(found["metrics"]) + len(found["not_applied"]) == 30
