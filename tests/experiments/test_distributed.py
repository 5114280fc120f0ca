"""Experiments on a cluster of this machine: the same numbers."""

import pytest

from tests.support import experiment_command

COMMANDS = {
    "uci": (
        "--dataset=yacht", "--splits=1", "--train_steps=100", "--steps=20",
        "--num_members=3", "--variance_ratios=0.7", "--num_samples=6",
        "--method=refined_vi", "--hidden=8", "--noprogress",
    ),
    "image": (
        "--dataset=digits", "--model=mlp", "--hidden=8", "--train_steps=40",
        "--method=refined_vi", "--steps=4", "--num_members=3",
        "--variance_ratios=0.7", "--num_samples=6", "--noprogress",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_cluster_gives_the_numbers_of_one_process(name, tmp_path):
    command = experiment_command.Command(name, *COMMANDS[name])
    found = []
    for run in (command.run, command.run_on_a_cluster):
        directory = tmp_path / run.__name__
        process = run(f"--output_dir={directory}")
        assert process.returncode == 0, process.stderr
        results = experiment_command.results(directory)
        assert results.pop("flags")["num_members"] == 3
        found.append(experiment_command.reproducible(results))
    assert found[0] == found[1]


def test_without_a_cluster_the_flag_says_what_it_wants():
    command = experiment_command.Command("uci", *COMMANDS["uci"])
    (message,) = command.messages([["--distributed"]])
    assert "`TF_CONFIG` must be JSON such as" in message
