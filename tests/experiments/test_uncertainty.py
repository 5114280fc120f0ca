"""The uncertainty experiment, run as users run it, and its flags."""

import json

import numpy as np
import pytest

from tests.support import experiment_command

QUICK = (
    "--train_steps=40", "--checkpoint_steps=20", "--num_samples=4",
    "--attack_examples=30", "--attack_samples=2", "--epsilons=0,0.3",
    "--random_label_examples=60", "--random_label_steps=40",
    "--cubic_steps=40", "--cubic_units=5", "--model=mlp", "--hidden=20",
    "--flow_units=5", "--auxiliary_flow_units=5", "--learning_rate=1e-2",
    "--noprogress",
)  # fmt: skip
COMMAND = experiment_command.Command("uncertainty", *QUICK)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("uncertainty")
    process = COMMAND.run(f"--output_dir={directory}")
    assert process.returncode == 0, process.stderr
    return directory, process.stdout


@pytest.mark.slow
def test_each_task_has_a_record_a_table_and_a_figure(finished):
    directory, output = finished
    results = experiment_command.results(directory)["results"]
    assert list(results) == ["unseen", "attack", "random_labels", "cubic"]
    for task, by_method in results.items():
        assert list(by_method) == ["map", "ffg", "mnf"]
        assert (directory / f"{task}.png").stat().st_size > 10000
        for method in by_method:
            assert len([*(directory / task).glob(f"{method}_*.json")]) == 1
    for text in ("entropy, unseen", "strength", "training accuracy", "MNF"):
        assert text in output


@pytest.mark.slow
def test_unseen_images_are_of_classes_that_are_not_trained_on(finished):
    results = experiment_command.results(finished[0])["results"]["unseen"]
    for result in results.values():
        entropies = result["entropies"]
        assert list(entropies) == ["test images", "unseen classes"]
        # Of the 360 test images of the digits, 180 are of 0 to 4.
        assert [len(v) for v in entropies.values()] == [180, 180]
        values = entropies["unseen classes"]
        assert 0.0 <= min(values) <= max(values) <= np.log(5.0) + 1e-6
        np.testing.assert_allclose(result["unseen_entropy"], np.mean(values))
        assert result["accuracy"] > 0.5
        assert 0.0 <= result["auroc"] <= 1.0


@pytest.mark.slow
def test_attacks_hurt(finished):
    results = experiment_command.results(finished[0])["results"]
    for result in results["attack"].values():
        curve = result["curve"]
        assert curve["epsilon"] == [0.0, 0.3]
        assert curve["accuracy"][1] < curve["accuracy"][0] - 0.2
        assert curve["mll"][1] < curve["mll"][0]


@pytest.mark.slow
def test_a_network_without_posteriors_remembers_random_labels(finished):
    results = experiment_command.results(finished[0])["results"]
    result = results["random_labels"]["map"]
    # Of a guess more than 15 of 60 are right once in 2000.
    for method in ("ffg", "mnf"):
        assert results["random_labels"][method]["train_accuracy"] < 0.27
    # 60 labels in 40 steps; of a guess more than 18 are right once in 1e5.
    assert result["train_accuracy"] > 0.3
    assert result["curve"]["step"] == list(range(1, 41))
    assert result["train_accuracy"] == result["curve"]["train_accuracy"][-1]


@pytest.mark.slow
def test_the_cubic_has_the_known_noise_at_least(finished):
    results = experiment_command.results(finished[0])["results"]["cubic"]
    for method, result in results.items():
        scale = np.asarray(result["scale"])
        assert len(result["mean"]) == len(scale) == 241
        assert np.all(scale >= 3.0)
        assert np.all(scale == 3.0) == (method == "map")
        np.testing.assert_allclose(
            result["scale_far"], 0.5 * (scale[0] + scale[-1])
        )


@pytest.mark.slow
def test_tasks_can_be_run_again_with_other_flags_and_keep_the_others(
    finished,
):
    directory, _ = finished
    paths = [*directory.glob("*/*.json")]
    before = {path: path.stat().st_mtime_ns for path in paths}
    results = experiment_command.results(directory)["results"]
    process = COMMAND.run(
        f"--output_dir={directory}", "--task=attack", "--method=mnf",
        "--epsilons=0,0.1,0.3",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    # Nothing was trained again or removed; the attack alone is another one.
    assert {path: path.stat().st_mtime_ns for path in paths} == before
    assert len([*directory.glob("*/*.json")]) == len(paths) + 1
    again = experiment_command.results(directory)["results"]
    for task in ("unseen", "random_labels", "cubic"):
        assert again[task] == results[task]
    assert list(again["attack"]) == ["mnf"]
    assert again["attack"]["mnf"]["curve"]["epsilon"] == [0.0, 0.1, 0.3]


@pytest.mark.slow
def test_a_run_that_was_killed_ends_with_the_same_numbers(finished, tmp_path):
    COMMAND.kill_when(
        (tmp_path / "training" / "mnf" / "segment_0.keras").exists,
        f"--output_dir={tmp_path}",
    )
    process = COMMAND.run(f"--output_dir={tmp_path}")
    assert process.returncode == 0, process.stderr
    paths = [path.relative_to(tmp_path) for path in tmp_path.glob("*/*.json")]
    assert len(paths) == 4 * 3
    for path in paths:
        ours, theirs = (
            experiment_command.reproducible(
                json.loads((folder / path).read_text())
            )
            for folder in (tmp_path, finished[0])
        )
        assert ours == theirs, path


def test_wrong_flags_are_explained_before_any_work(tmp_path):
    cases = {
        "--task=seen": "--task must name some of unseen, attack",
        "--method=laplace": "--method must name some of map, ffg, mnf",
        "--classes=1": "--classes: `classes` must be two or more",
        "--classes=a,b": "--classes must be a comma-separated list",
        "--epsilons=-1": "`--epsilons` must be a finite number, not negative",
        "--epsilons=nan": "`--epsilons` must be a finite number, not negative",
        "--learning_rate=nan": "`--learning_rate` must be a positive finite",
        "--unseen_dataset=digits": "must be another set than --dataset",
        "--log_var_init=2000": "`log_var_init` must be in [-40, 40]",
        "--max_std=0": "`max_std` must be a positive finite number",
        "--prior_scale=0": "`--prior_scale` must be a positive finite number",
        "--model=resnet20": "--model must be one of mlp, lenet5, lenet5_caffe",
        "--random_label_examples=5000": "at most 1437, the training images",
        "--flow_length=-1": "flow_length",
        "--dataset=nothing": "nothing",
    }
    messages = COMMAND.messages(
        [[f"--output_dir={tmp_path}", case] for case in cases]
    )
    for (case, expected), message in zip(cases.items(), messages, strict=True):
        assert message is not None, case
        assert expected in message, case
    assert not [*tmp_path.iterdir()]


def test_help_explains_the_tasks():
    process = COMMAND.run("--help")
    assert "labels that were drawn at random" in process.stdout
    assert "--flow_length" in process.stdout
