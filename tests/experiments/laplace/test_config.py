"""The configuration and the command line of the Laplace experiment."""

import sys

import pytest

from tfp_refine.experiments import laplace
from tfp_refine.experiments import listing
from tfp_refine.experiments.harness import program


def test_defaults_are_those_of_the_paper():
    config = laplace.Config()
    assert config.dataset == "digits"
    assert len(config.systems) == 12
    filled = config.with_defaults(
        {
            **config.before_data("images"),
            **config.after_data("images", (28, 28, 1), 54000),
        }
    )
    assert filled.model == "lenet5"
    assert filled.batch_size == 128
    assert filled.train_steps == 30000
    assert filled.validation_fraction == 0.1
    assert filled.unseen == ("turned", "shuffled")


def test_small_sets_have_small_batches_and_a_hundred_epochs():
    defaults = laplace.Config().after_data("table", (4,), 108)
    assert (defaults["batch_size"], defaults["train_steps"]) == (108, 100)
    assert defaults["model"] == "mlp"
    defaults = laplace.Config(epochs=3).after_data("texts", (100,), 300)
    assert (defaults["batch_size"], defaults["train_steps"]) == (128, 6)
    assert defaults["model"] == "gru"


def start(monkeypatch, capsys, *flags):
    """Runs the program here; returns its exit status and its last words."""
    monkeypatch.setattr(sys, "argv", ["laplace", *flags])
    with pytest.raises(SystemExit) as stopped:
        program.main(laplace, listing.listed)
    return stopped.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "status", "message"),
    [
        ("--tasks=seen", 2, "must be one of comparison, toy, integration"),
        ("--tasks=toy,toy", 2, "--tasks must not repeat an entry"),
        ("--tasks=", 2, "--tasks must not be empty"),
        ("--hidden=", 2, "--hidden must not be empty"),
        ("--validation_fraction=1", 2, "--validation_fraction must be"),
        ("--flow_learning_rate=0", 2, "--flow_learning_rate must be positive"),
        ("--toy_prior_scale=0", 2, "--toy_prior_scale must be positive"),
        ("--toy_points=3", 2, "--toy_points must be at least 4"),
        ("--rotations=far", 2, "--rotations must be a list of numbers"),
        ("--predictive=exact", 2, "--predictive must be one of"),
        ("--systems=swagger", 1, "--systems must hold names of map, vi"),
        ("--systems=map,map", 1, "--systems must hold each system once"),
        ("--systems=flows(flow_length=0)", 1, "--flow_length must be at least"),
        ("--systems=flows(flow_length=a)", 1, "--flow_length must be an"),
        (
            "--systems=laplace(vi)",
            1,
            "needs a network of point estimates",
        ),
        ("--prior_precision=0", 1, "must be a positive number"),
        ("--prior_scale=0", 1, "--prior_scale that is a positive number"),
        ("--model=vgg", 1, "--list prints"),
        ("--model=none.keras", 1, "the file of a Keras model"),
        ("--scaling=unit", 1, "--scaling is for a trained --model"),
        ("--unseen=digits", 1, "--unseen must name some of turned, shuffled"),
    ],
)
def test_wrong_flags_are_explained_before_any_work(
    monkeypatch, capsys, tmp_path, flag, status, message
):
    found, error = start(
        monkeypatch, capsys, f"--output_dir={tmp_path / 'out'}", flag
    )
    assert message in error
    assert found == status
    assert error.startswith("laplace: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_flags_that_do_not_fit_the_data_are_explained(
    monkeypatch, capsys, tmp_path
):
    for flags, message in {
        ("--dataset=iris", "--unseen=mnist"): "some of shuffled. Received",
        ("--dataset=iris", "--model=lenet5"): "is not for --kind=table",
        ("--dataset=iris", "--model=gru"): "is not for --kind=table",
        ("--dataset=iris", "--corruptions=fog"): "--corruptions has no",
    }.items():
        status, error = start(
            monkeypatch, capsys, f"--output_dir={tmp_path}", *flags
        )
        assert status == 1
        assert message in error
