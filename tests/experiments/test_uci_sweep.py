"""Several priors, posteriors and depths in one run of the UCI experiment."""

import re

import numpy as np
import pytest

from tests.support import experiment_command

COMMAND = experiment_command.Command(
    "uci",
    "--dataset=yacht", "--splits=2", "--train_steps=40", "--num_members=2",
    "--num_samples=4", "--hidden=4", "--method=vi", "--noprogress",
    "--likelihood=heteroscedastic", "--prior_scale=fan_in",
)  # fmt: skip
SWEEP = ("--regularizer=gaussian,collapsed_mean", "--depths=1,2")
NAMES = [
    f"{regularizer}_depth_{depth}"
    for regularizer in ("gaussian", "collapsed_mean")
    for depth in (1, 2)
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sweep")
    process = COMMAND.run(f"--output_dir={directory}", *SWEEP)
    assert process.returncode == 0, process.stderr
    return directory, process.stdout


@pytest.mark.slow
def test_each_setting_has_its_record_and_a_row_of_the_table(finished):
    directory, output = finished
    summary = experiment_command.results(directory / "comparison")
    assert list(summary) == NAMES
    for name in NAMES:
        record = experiment_command.results(directory / name)
        regularizer, depth = name.split("_depth_")
        assert record["flags"]["regularizer"] == [regularizer]
        assert record["flags"]["hidden"] == ["4"] * int(depth)
        assert record["metrics"] == summary[name]
        assert re.search(rf"^{name} +VI ", output, re.MULTILINE)
    assert (directory / "comparison" / "depths_vi.png").stat().st_size > 10000
    likelihoods = [summary[name]["vi"]["mll"] for name in NAMES]
    assert len(set(likelihoods)) == len(NAMES)
    # The paper's figures are of another likelihood.
    assert "paper" not in output


@pytest.mark.slow
def test_a_single_setting_of_the_sweep_gives_the_same_numbers(
    finished, tmp_path
):
    directory, _ = finished
    process = COMMAND.run(
        f"--output_dir={tmp_path}", "--regularizer=collapsed_mean",
        "--depths=2",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    one = experiment_command.results(tmp_path)["metrics"]
    other = experiment_command.results(directory / "collapsed_mean_depth_2")
    assert one == other["metrics"]


@pytest.mark.slow
def test_what_is_there_is_not_run_again(finished):
    directory, _ = finished
    before = experiment_command.results(directory / NAMES[0])["wall_seconds"]
    process = COMMAND.run(f"--output_dir={directory}", *SWEEP)
    assert process.returncode == 0, process.stderr
    after = experiment_command.results(directory / NAMES[0])["wall_seconds"]
    assert after == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["--regularizer=log_uniform", "--posterior=mean_field,fixed_variance"],
        ["--regularizer=scale_mixture", "--estimator=reparameterization"],
        ["--regularizer=collapsed_variance", "--posterior=k_tied"],
        ["--regularizer=collapsed_mean_variance", "--posterior=low_rank"],
        ["--regularizer=collapsed_mean", "--learn_alpha_reg=gradient"],
        ["--regularizer=collapsed_mean", "--learn_alpha_reg=closed_form"],
        ["--regularizer=empirical_bayes", "--learn_prior_mean"],
        ["--kl_scale=0.5"],
    ],
)
def test_every_prior_and_posterior_can_be_trained(arguments, tmp_path):
    process = COMMAND.run(
        f"--output_dir={tmp_path}", "--splits=1", "--hidden=8", *arguments,
        "--posterior_rank=1",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    sweep = tmp_path / "comparison"
    record = experiment_command.results(sweep if sweep.exists() else tmp_path)
    for metrics in record.get("metrics", record).values():
        values = metrics.get("vi", metrics)
        assert np.isfinite(values["mll"])
        assert np.isfinite(values["elbo"])


WRONG = {
    "--regularizer must name, once": ["--regularizer=gaussian,magic"],
    "--regularizer must .*once": ["--regularizer=gaussian,gaussian"],
    "--posterior must .* some of mean_field": ["--posterior=magic"],
    "--depths must be positive": ["--depths=0,1"],
    "--hidden one width": ["--depths=1,2", "--hidden=4,4"],
    "`prior_scale` must be .*fan_in": ["--prior_scale=large"],
    "`alpha_reg`": ["--regularizer=collapsed_mean", "--alpha_reg=0"],
    "`rate`": ["--regularizer=collapsed_variance", "--precision_rate=-1"],
    "`rank` must not be": ["--posterior=k_tied", "--posterior_rank=5"],
    "ScaleMixtureKL.*Reparameteriz": ["--regularizer=scale_mixture"],
    "--method=refined_vi: .*Student t": [
        "--regularizer=gaussian,collapsed_variance", "--method=vi,refined_vi",
    ],
    "--method=refined_vi: .*mean-field": [
        "--posterior=low_rank", "--method=refined_vi", "--hidden=8",
    ],
}  # fmt: skip


def test_wrong_flags_are_explained_before_any_work(tmp_path):
    messages = COMMAND.messages(
        [[f"--output_dir={tmp_path}", *flags] for flags in WRONG.values()]
    )
    for expected, message in zip(WRONG, messages, strict=True):
        assert re.search(expected, message or ""), (expected, message)
