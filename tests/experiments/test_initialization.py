"""The initialization experiment, run as users run it, and its flags."""

import subprocess
import sys

import numpy as np
import pytest

from tests.support import experiment_command
from tfp_refine.experiments import initialization_report

QUICK = (
    "--train_steps=40", "--evaluations=4", "--num_samples=8", "--splits=2",
    "--toy_steps=20", "--toy_points=60", "--hidden=10,10", "--noprogress",
)  # fmt: skip
COMMAND = experiment_command.Command("initialization", *QUICK)
METHODS = ["heuristic", "lsuv", "iblm", "mc_dropout"]


def yacht(directory):
    return (
        f"--output_dir={directory}", "--dataset=yacht",
        f"--method={','.join(METHODS)}",
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("initialization")
    process = COMMAND.run(*yacht(directory))
    assert process.returncode == 0, process.stderr
    return directory, process.stdout


@pytest.mark.slow
def test_each_method_has_a_curve_of_each_split(finished):
    directory, output = finished
    contents = experiment_command.results(directory)
    curves = contents["results"]["curves"]
    assert list(curves) == METHODS
    for runs in curves.values():
        assert len(runs) == 2
        for run in runs:
            assert run["curve"]["step"] == [0, 10, 20, 30, 40]
            values = [*run["curve"]["error"], *run["curve"]["mnll"]]
            assert len(values) == 10
            assert np.all(np.isfinite(values))
    assert "seconds to initialize" in output
    assert "of 4 cases" in output
    for name in ("curves", "toy_before", "toy_after"):
        assert (directory / f"{name}.png").stat().st_size > 10000


@pytest.mark.slow
def test_a_linear_start_predicts_before_any_training(finished):
    results = experiment_command.results(finished[0])["results"]
    curves = results["curves"]
    for run, other in zip(curves["iblm"], curves["heuristic"], strict=True):
        # Yacht's target has a standard deviation of 15; linear fits leave 9.
        assert run["curve"]["error"][0] < 12.0 < other["curve"]["error"][0]
    toy = results["toy"]
    assert list(toy) == METHODS[:-1]
    for result in toy.values():
        assert len(result["before"]["mean"]) == len(result["after"]["scale"])
        assert min(result["after"]["scale"]) > 0.0


@pytest.mark.slow
def test_a_task_that_is_run_again_keeps_the_other(finished):
    directory, _ = finished
    before = experiment_command.results(directory)
    process = COMMAND.run(*yacht(directory), "--task=toy", "--method=iblm")
    assert process.returncode == 0, process.stderr
    after = experiment_command.results(directory)
    assert after["results"]["curves"] == before["results"]["curves"]
    assert after["metrics"] == before["metrics"]
    assert list(after["results"]["toy"]) == ["iblm"]


@pytest.mark.slow
def test_images_have_entropies_too(tmp_path):
    process = COMMAND.run(
        f"--output_dir={tmp_path}", "--dataset=digits", "--task=curves",
        "--model=shallow", "--method=iblm,mc_dropout", "--splits=1",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    curves = experiment_command.results(tmp_path)["results"]["curves"]
    for (run,) in curves.values():
        assert 0.0 <= min(run["curve"]["error"]) <= 1.0
        entropies = run["entropies"]
        assert list(entropies) == ["test", "unseen"]
        assert [len(v) for v in entropies.values()] == [360, 360]
        assert 0.0 < max(entropies["unseen"]) <= np.log(10.0) + 1e-6
    assert curves["iblm"][0]["curve"]["error"][0] < 0.3
    assert (tmp_path / "entropies.png").exists()


@pytest.mark.slow
def test_tables_of_a_folder_can_have_classes(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "mine" / "data"
    folder.mkdir(parents=True)
    x = rng.normal(size=(80, 3))
    table = np.column_stack([x, np.where(x[:, 0] > 0.0, 7, 3)])
    np.savetxt(folder / "data.txt", table)
    (folder / "index_features.txt").write_text("0\n1\n2\n")
    (folder / "index_target.txt").write_text("3\n")
    process = COMMAND.run(
        f"--output_dir={tmp_path / 'out'}", f"--data_dir={tmp_path}",
        "--dataset=mine", "--kind=classification", "--task=curves",
        "--method=iblm",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    results = experiment_command.results(tmp_path / "out")["results"]
    for run in results["curves"]["iblm"]:
        assert run["curve"]["error"][0] < 0.35


@pytest.mark.slow
def test_a_run_that_was_killed_ends_with_the_same_numbers(finished, tmp_path):
    COMMAND.kill_when(
        lambda: [*tmp_path.glob("curves/iblm_0_*/segment_1.keras")],
        *yacht(tmp_path),
    )
    process = COMMAND.run(*yacht(tmp_path))
    assert process.returncode == 0, process.stderr
    ours, theirs = map(experiment_command.records, (tmp_path, finished[0]))
    assert ours == theirs


def test_wrong_flags_are_explained_before_any_work(tmp_path):
    cases = {
        "--task=seen": "--task must name some of curves, toy",
        "--method=map": "--method must name some of uninformative, heuristic",
        "--dropout=1": "--dropout must be between 0 and 1",
        "--evaluations=50": "--evaluations must be at most --train_steps",
        "--model=lenet5": "--model=lenet5 is for images",
        "--hidden=": "--hidden must hold positive numbers",
        "--hidden=a": "--hidden must be a comma-separated list of numbers",
        "--prior_scale=0": "`prior_scale` must be a positive finite number",
        "--prior_scale=wide": "`prior_scale` must be a positive number or one",
        "--noise_scale=0": "`--noise_scale` must be a positive finite number",
        "--unseen_dataset=mnist": "--unseen_dataset is for images",
        "--dataset=boston": "is not embedded",
        "--kind=classification": "must be one of breast_cancer, digits",
    }
    messages = COMMAND.messages(
        [[f"--output_dir={tmp_path}", case] for case in cases]
    )
    for (case, expected), message in zip(cases.items(), messages, strict=True):
        assert expected in (message or ""), case


def run_of(*mnll):
    steps = [10 * index for index in range(len(mnll))]
    curve = {"step": steps, "mnll": list(mnll), "error": [0.0] * len(mnll)}
    return {"curve": curve, "initialization_seconds": 1.0}


def test_it_is_counted_how_early_others_are_reached():
    results = {
        "heuristic": [run_of(9.0, 8.0, 7.0, 5.0), run_of(9.0, 8.0, 7.0, 1.0)],
        "iblm": [run_of(6.0, 5.0, 4.0, 8.0), run_of(6.0, 5.0, 4.0, 2.0)],
    }
    summary = initialization_report.summarize(results)
    assert "reached" not in summary["iblm"]
    # After a third of the steps, and never: neither is the median.
    assert summary["heuristic"]["reached"] is None
    assert summary["heuristic"]["final_mnll"] == 3.0
    table = initialization_report.curves_table("set", "RMSE", results)
    assert "in 1 of 2 cases" in table
    assert "never" in table


def test_runs_that_diverged_are_told_and_left_out():
    results = {
        "lsuv": [{"diverged": "NaN"}, {"diverged": "NaN"}],
        "heuristic": [{"diverged": "NaN"}, run_of(9.0, 3.0)],
        "iblm": [run_of(6.0, 2.0), run_of(2.0, 1.0)],
    }
    summary = initialization_report.summarize(results)
    assert summary["lsuv"] == {"diverged": 2}
    assert summary["heuristic"]["diverged"] == 1
    assert summary["heuristic"]["final_mnll"] == 3.0
    assert summary["heuristic"]["reached"] == 0.0
    table = initialization_report.curves_table("set", "RMSE", results)
    assert "LSUV (2 of 2 splits), heuristic (1 of 2 splits)" in table
    assert "in 1 of 1 cases" in table


@pytest.mark.slow
def test_dropout_pays_for_the_weights_of_the_bound():
    code = """
from absl import flags
from tfp_refine.experiments import initialization_flags, initialization_models
flags.FLAGS(["x", "--hidden=4,4", "--prior_scale=0.5", "--dropout=0.2"])
initialization_flags.check()
model = initialization_models.build("mc_dropout", (3,), None, 100, seed=0)
found = [layer for layer in model.layers if hasattr(layer, "kernel")]
decay = 0.5 / (100 * 0.5**2)
keeps = (1.0, 0.8, 0.8)
for layer, keep in zip(found, keeps, strict=True):
    assert abs(float(layer.kernel_regularizer.l2) - decay / keep) < 1e-9
    assert abs(float(layer.bias_regularizer.l2) - decay) < 1e-9
"""
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
