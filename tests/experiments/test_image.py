"""The image experiment, run as users run it, and its flags."""

import json
import re
import shutil

import numpy as np
import pytest
from absl.testing import flagsaver

from tests.support import experiment_command
from tfp_refine import datasets
from tfp_refine import metrics
from tfp_refine import posteriors
from tfp_refine.experiments import image
from tfp_refine.experiments import image_models
from tfp_refine.experiments import image_report

QUICK = (
    "--dataset=digits", "--train_steps=60", "--checkpoint_steps=20",
    "--steps=6", "--num_members=2", "--variance_ratios=0.7,0.5",
    "--num_samples=4", "--num_eval_samples=1", "--batch_size=128",
    "--noprogress",
)  # fmt: skip
COMMAND = experiment_command.Command("image", *QUICK)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("image")
    process = COMMAND.run(
        f"--output_dir={directory}", "--method=map,vi,control,refined_vi",
        "--rotations=0,90", "--corruptions=gaussian_noise",
        "--shift_examples=50", "--tensorboard",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return directory, process.stdout


@pytest.mark.slow
def test_record_and_table_hold_every_method(finished):
    directory, output = finished
    record = experiment_command.results(directory)
    assert list(record["metrics"]) == ["map", "vi", "control", "refined_vi"]
    for method, values in record["metrics"].items():
        assert {"mll", "mll_2_draws", "accuracy", "ece", "brier"} <= set(values)
        assert ("elbo" in values) == (method != "map")
        assert record["wall_seconds"][method] > 0
    for text in ("MAP", "VI, as long", "refined VI", "MLL (2 draws)", "rot"):
        assert text in output


@pytest.mark.slow
def test_metrics_are_those_of_the_saved_ensemble_on_test_images(finished):
    directory, _ = finished
    record = experiment_command.results(directory)
    ensemble = posteriors.load_posterior(
        directory / "refined_vi" / "ensemble.posterior"
    )
    raw = datasets.load_images("digits")
    data = datasets.standardized_images(raw)
    draws = ensemble.predict(data.x_test, 4, seed=0)
    probs = np.exp(draws) / np.sum(np.exp(draws), axis=-1, keepdims=True)
    probs = np.mean(probs, axis=0)
    found = record["metrics"]["refined_vi"]
    np.testing.assert_allclose(
        found["accuracy"], np.mean(np.argmax(probs, axis=-1) == data.y_test)
    )
    rows = np.arange(len(data.y_test))
    np.testing.assert_allclose(
        found["mll"], np.mean(np.log(probs[rows, data.y_test])), rtol=1e-4
    )
    # Not the training images, which have another likelihood.
    train = ensemble.predict(data.x_train, 4, seed=0)
    nll = metrics.negative_log_likelihood(data.y_train, train, from_logits=True)
    assert abs(found["mll"] + nll) > 1e-3
    for name, value in (
        ("ece", metrics.expected_calibration_error(data.y_test, probs)),
        ("brier", metrics.brier_score(data.y_test, probs)),
        ("entropy", np.mean(metrics.predictive_entropy(probs))),
    ):
        np.testing.assert_allclose(found[name], value, rtol=1e-3)


@pytest.mark.slow
def test_multiplicative_flows_are_trained(tmp_path):
    process = COMMAND.run(
        f"--output_dir={tmp_path}", "--method=mnf", "--model=mlp",
        "--hidden=20", "--flow_units=5", "--auxiliary_flow_units=5",
        "--max_std=0.5", "--learning_rate=1e-2",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "MNF" in process.stdout
    metrics = experiment_command.results(tmp_path)["metrics"]["mnf"]
    assert metrics["accuracy"] > 0.6
    assert np.isfinite(metrics["elbo"])
    assert metrics["mutual_information"] > 0.0


@pytest.mark.slow
def test_elbo_is_of_the_whole_training_set(finished):
    directory, _ = finished
    found = experiment_command.results(directory)["metrics"]
    last = experiment_command.results(directory)["results"]["vi"]["history"][-1]
    np.testing.assert_allclose(
        last["elbo"], -1437 * last["nll"] - last["kl"], rtol=1e-6
    )
    # 84 thousand weights, hardly trained: the KL divergence is most of it.
    np.testing.assert_allclose(found["vi"]["elbo"], last["elbo"], rtol=0.02)
    assert found["refined_vi"]["elbo_init"] == pytest.approx(
        found["vi"]["elbo"], rel=0.02
    )
    assert "elbo" not in found["map"]


@pytest.mark.slow
def test_history_counts_steps(finished):
    directory, _ = finished
    results = experiment_command.results(directory)["results"]
    assert [e["step"] for e in results["vi"]["history"]] == [20, 40, 60]
    # As many as refinement takes: 2 members, 2 auxiliary variables, 6 steps.
    assert results["control"]["history"][-1]["step"] == 24
    accuracy = [e["accuracy"] for e in results["vi"]["history"]]
    assert accuracy[-1] > accuracy[0]


@pytest.mark.slow
def test_shifts_are_evaluated(finished):
    directory, _ = finished
    results = experiment_command.results(directory)["results"]
    shifts = results["vi"]["shifts"]
    assert [(s["shift"], s["strength"]) for s in shifts] == [
        ("rotation", 0.0),
        ("rotation", 90.0),
        *(("gaussian_noise", severity) for severity in range(1, 6)),
    ]
    assert shifts[0]["accuracy"] > shifts[1]["accuracy"] + 0.2


@pytest.mark.slow
def test_plots_and_logs_are_written(finished):
    directory, _ = finished
    for name in (
        "reliability",
        "learning_curves_vi",
        "learning_curves_map",
        "elbo_staircase",
    ):
        assert (directory / f"{name}.png").stat().st_size > 10000
    for method in ("vi", "refined_vi"):
        assert list((directory / method / "tensorboard").iterdir())


def _assert_close(one, other):
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            _assert_close(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for first, second in zip(one, other, strict=True):
            _assert_close(first, second)
    elif isinstance(one, float):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    else:
        assert one == other


@pytest.mark.slow
def test_runs_that_are_killed_end_with_the_same_numbers(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    flags = (f"--output_dir={killed}", "--method=vi,refined_vi")
    # In the middle of training, then in the middle of refinement.
    COMMAND.kill_when((killed / "vi" / "segment_1.keras").exists, *flags)
    assert not list((killed / "vi").glob("evaluation*"))
    checkpoint = killed / "refined_vi" / "refinement.ckpt"
    COMMAND.kill_when(checkpoint.exists, *flags)
    assert not list((killed / "refined_vi").glob("evaluation*"))
    for folder in (whole, killed):
        process = COMMAND.run(f"--output_dir={folder}", *flags[1:])
        assert process.returncode == 0, process.stderr
    _assert_close(
        *(
            experiment_command.reproducible(experiment_command.results(folder))
            for folder in (whole, killed)
        )
    )


@pytest.fixture
def stop(tmp_path):
    """Runs the checks with some flags; returns the message of their end."""

    def run(*flags):
        image.FLAGS(["image", f"--output_dir={tmp_path / 'new'}", *flags])
        with pytest.raises(SystemExit) as error:
            image.main(["image"])
        assert not (tmp_path / "new" / "flags.json").exists()
        return str(error.value)

    with flagsaver.flagsaver():
        yield run


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--dataset=no_such_set"], "no_such_set"),
        (
            ["--dataset=mnist", "--data_dir=/no/such/folder"],
            "/no/such/folder.*--download|--download.*/no/such/folder|data_dir",
        ),
        (["--method=vi,magic"], "--method must name some of map, vi"),
        (["--model=vgg"], "--model must be mlp, lenet5.*Received: vgg"),
        (["--model=resnet21"], r"`depth` must be 6 n \+ 2.*depth=21"),
        (["--model=resnet2"], r"`depth` must be 6 n \+ 2"),
        (["--variational=hybrid"], "--variational=hybrid are for ResNets"),
        (["--variational=none", "--method=vi"], "only --method=map"),
        (["--batch_norm"], "--batch_norm .* for ResNets"),
        (["--epochs=1", "--train_steps=1"], "--epochs or --train_steps"),
        (["--early_stopping_patience=1"], "needs a --validation_fraction"),
        (["--validation_fraction=1"], "validation_fraction"),
        (["--ood_dataset=digits"], "must be another set"),
        (["--rotations=15,much"], "--rotations must be .*15,much"),
        (["--corruptions=coffee"], "`corruption` must be one of"),
        (["--variance_ratios=0.7*many"], r"NUMBER\*TIMES"),
        (["--variance_ratios=0.7,1.5"], "`variance_ratios`"),
        (["--num_samples=15"], "multiple of --num_members"),
        (["--initial_scale=0"], "`initial_scale`"),
    ],
)
def test_wrong_flags_are_explained_before_any_work(stop, flags, message):
    assert re.search(message, stop(*flags), re.DOTALL)


@pytest.mark.slow
def test_an_output_folder_of_other_flags_is_refused(finished):
    directory, _ = finished
    process = COMMAND.run(f"--output_dir={directory}", "--seed=1")
    assert process.returncode != 0
    assert "--seed: 0 there, 1 now" in process.stderr
    assert "Traceback" not in process.stderr


@pytest.fixture
def experiment(tmp_path):
    """Makes an experiment with some flags."""

    def make(*flags):
        image.FLAGS(["image", f"--output_dir={tmp_path}", *flags])
        return image.make()

    with flagsaver.flagsaver():
        yield make


def test_flags_decide_the_model(experiment):
    made = experiment(
        "--model=resnet8", "--batch_norm", "--epochs=3", "--batch_size=100",
        "--learning_rate_schedule=step", "--learning_rate=0.5",
    )  # fmt: skip
    assert image.FLAGS.train_steps == 3 * (1437 // 100)
    assert made._ratios == (0.5,) * 10
    model = made._build("hybrid")
    assert model.name == "resnet8"
    rate = model.optimizer._learning_rate
    # Epochs are numbered from 0; the rate falls when 80 is past.
    for epoch, factor in (
        (0, 1.0), (80, 1.0), (81, 0.1), (121, 1e-2), (161, 1e-3),
        (181, 5e-4), (500, 5e-4),
    ):  # fmt: skip
        np.testing.assert_allclose(rate(epoch * 14), 0.5 * factor)
    np.testing.assert_allclose(rate(81 * 14 - 1), 0.5)


def test_the_rate_may_fall_to_zero(experiment):
    made = experiment(
        "--learning_rate_schedule=linear", "--train_steps=200",
        "--learning_rate=0.5",
    )  # fmt: skip
    rate = made._build("full").optimizer._learning_rate
    np.testing.assert_allclose(
        [rate(step) for step in (0, 50, 200)], [0.5, 0.375, 0.0]
    )


def test_defaults_are_written_down(experiment, tmp_path):
    experiment()
    flags = json.loads((tmp_path / "flags.json").read_text())
    assert flags["batch_size"] == 143
    assert flags["train_steps"] == 500 * 10
    assert flags["variational"] == "full"
    assert flags["variance_ratios"] == ["0.7*5"]
    assert flags["regularizer"] == ["empirical_bayes"]
    # Given as it would have been, all is the same.
    with flagsaver.flagsaver():
        experiment("--train_steps=5000", "--batch_size=143")


@pytest.mark.slow
def test_an_evaluation_can_be_added_without_another_training(
    finished, tmp_path
):
    directory, _ = finished
    shutil.copytree(directory, tmp_path / "copy")
    process = COMMAND.run(
        f"--output_dir={tmp_path / 'copy'}", "--method=vi,refined_vi",
        "--num_samples=6",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    before, after = (
        experiment_command.results(folder)["results"]
        for folder in (directory, tmp_path / "copy")
    )
    assert before["vi"]["history"] == after["vi"]["history"]
    assert before["vi"]["mll"] != after["vi"]["mll"]
    assert before["refined_vi"]["elbo"] == after["refined_vi"]["elbo"]


@pytest.mark.slow
def test_another_set_is_told_apart(experiment, tmp_path, monkeypatch, capsys):
    digits = datasets.load_images("digits")
    rng = np.random.default_rng(0)
    noise = digits._replace(
        name="noise",
        x_test=rng.integers(0, 256, size=(60, 9, 7, 3)).astype(np.uint8),
        y_test=np.zeros(60, np.int32),
    )
    sets = {"digits": digits, "noise": noise}
    monkeypatch.setattr(
        datasets, "load_images", lambda name, *arguments: sets[name]
    )
    experiment(
        *QUICK, "--ood_dataset=noise", "--method=map", "--train_steps=40"
    ).run()
    record = experiment_command.results(tmp_path)["results"]["map"]
    assert len(record["entropies"]["noise"]) == 60
    assert len(record["entropies"]["digits"]) == 360
    assert 0.5 < record["auroc"] <= 1.0
    assert 0.0 <= record["fpr95"] < 0.95
    assert (tmp_path / "entropies.png").stat().st_size > 10000
    assert "noise as out of distribution" in capsys.readouterr().out


@pytest.mark.slow
def test_early_stopping_watches_the_likelihood(experiment, tmp_path):
    experiment(
        *QUICK, "--method=map", "--validation_fraction=0.1",
        "--early_stopping_patience=1", "--augment=crop", "--train_steps=400",
        "--learning_rate=0.05",
    ).run()  # fmt: skip
    history = experiment_command.results(tmp_path)["results"]["map"]["history"]
    values = [entry["val_nll"] for entry in history]
    assert len(values) < 20
    assert values[-1] >= min(values[:-1])
    assert (tmp_path / "map" / "best.keras").exists()


def test_posteriors_default_to_what_is_usual():
    usual = image_models.usual_variational
    assert usual("lenet5") == usual("lenet5_caffe") == "full"
    assert usual("resnet20") == usual("resnet32") == "hybrid"


@pytest.mark.parametrize(
    ("batch_norm", "augment", "expected"),
    [(False, "none", -0.432), (True, "none", -0.423), (False, "crop", None)],
)
def test_the_papers_figures_are_of_this_configuration(
    batch_norm, augment, expected
):
    found = image_report.paper(
        "cifar10", "resnet20", "hybrid", batch_norm, augment,
        ("gaussian", "mean_field", 1.0),
    )  # fmt: skip
    assert found.get("refined_vi", (None,))[0] == expected


def test_the_papers_figures_are_of_these_priors():
    usual = ("mnist", "lenet5", "full", False, "none")
    for system in (
        ("collapsed_mean", "mean_field", 1.0),
        ("gaussian", "low_rank", 1.0),
        ("gaussian", "mean_field", 0.5),
    ):
        assert image_report.paper(*usual, system) == {}
    collapsed = ("collapsed_mean", "mean_field", 1.0)
    figures = image_report.paper_of_priors
    assert figures("mnist", "mlp", ["400", "400"], collapsed) == {
        "vi": (-0.047, 0.9866)
    }
    assert figures("mnist", "mlp", ["400"], collapsed) == {}
    assert figures("digits", "mlp", ["400", "400"], collapsed) == {}
