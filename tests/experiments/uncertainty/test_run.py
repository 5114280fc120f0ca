"""The uncertainty experiment, run from Python and as a command."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from tests.support import program_in_process
from tfp_refine.experiments import uncertainty
from tfp_refine.experiments.harness import page

QUICK = uncertainty.Config(
    train_steps=40, segments=2, num_samples=4, attack_examples=30,
    attack_samples=2, epsilons=(0.0, 0.3), random_label_examples=60,
    random_label_steps=40, cubic_steps=40, cubic_units=5, model="mlp",
    hidden=(20,), mnf_flow_units=5, mnf_auxiliary_units=5, learning_rate=1e-2,
    progress=False,
)  # fmt: skip
SYSTEMS = ["map", "ffg", "mnf"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("uncertainty")
    config = dataclasses.replace(QUICK, output_dir=path)
    return config, uncertainty.run(config)


def values(results, metric):
    rows = results.rows[results.rows["metric"] == metric]
    assert list(rows["system"]) == SYSTEMS
    return rows.set_index("system")["value"]


@pytest.mark.slow
def test_each_task_has_rows_and_a_figure(finished):
    config, results = finished
    assert list(results) == ["images", "random_labels", "cubic"]
    path = results["cubic"].path.parent
    rows = pd.read_csv(path / "results.csv")
    assert set(rows["dataset"]) == {"digits", "digits, random labels", "cubic"}
    assert len(rows) == sum(len(one.rows) for one in results.values())
    for one in results.values():  # The bound, of all systems that have one.
        bounds = one.rows[one.rows["metric"] == "elbo"]
        assert list(bounds["system"]) == ["ffg", "mnf"]
        assert np.all(np.isfinite(bounds["value"]))
    if page.can_plot():
        for name in (
            "images/entropies", "images/attack", "random_labels/random_labels",
            "cubic/cubic",
        ):  # fmt: skip
            assert (path / f"{name}.png").stat().st_size > 10000


@pytest.mark.slow
def test_unseen_images_are_of_classes_that_are_not_trained_on(finished):
    images = finished[1]["images"]
    means = values(images, "unseen/other_classes/entropy")
    assert np.all(values(images, "accuracy") > 0.5)
    assert np.all(values(images, "unseen/other_classes/auroc") <= 1.0)
    for system in SYSTEMS:
        details = images.details[system][0]
        unseen = details["unseen_entropies"]["other_classes"]
        # Of the 360 test images of the digits, 180 are of 0 to 4.
        assert len(details["entropies"]["test"]) == len(unseen) == 180
        assert 0.0 <= min(unseen) <= max(unseen) <= np.log(5.0) + 1e-6
        np.testing.assert_allclose(means[system], np.mean(unseen))


@pytest.mark.slow
def test_attacks_hurt(finished):
    images = finished[1]["images"]
    before, after = (
        {m: values(images, f"attack/{e}/{m}") for m in ("accuracy", "nll")}
        for e in ("0", "0.3")
    )
    assert np.all(after["accuracy"] < before["accuracy"] - 0.2)
    assert np.all(after["nll"] > before["nll"])


@pytest.mark.slow
def test_a_network_without_posteriors_remembers_random_labels(finished):
    labels = finished[1]["random_labels"]
    remembered = values(labels, "train_accuracy")
    # Of a guess more than 15 of 60 are right once in 2000.
    assert remembered["ffg"] < 0.27
    assert remembered["mnf"] < 0.27
    # 60 labels in 40 steps; of a guess more than 18 are right once in 1e5.
    assert remembered["map"] > 0.3
    curve = labels.details["map"][0]["curve"]
    assert curve["step"] == list(range(1, 41))
    assert curve["train_accuracy"][-1] == remembered["map"]


@pytest.mark.slow
def test_the_cubic_has_the_known_noise_at_least(finished):
    cubic = finished[1]["cubic"]
    far = values(cubic, "scale_far")
    for system in SYSTEMS:
        bands = cubic.details[system][0]["bands"]
        scale = np.asarray(bands["scale"])
        assert len(bands["mean"]) == len(scale)
        assert np.all(scale >= 3.0 - 1e-5)
        assert np.allclose(scale, 3.0, rtol=1e-5) == (system == "map")
        np.testing.assert_allclose(far[system], 0.5 * (scale[0] + scale[-1]))


@pytest.mark.slow
def test_fields_of_one_task_leave_the_others(finished):
    config, results = finished
    path = results["cubic"].path.parent
    fits = {p: p.stat().st_mtime_ns for p in path.glob("*/seed_0/*/fit/*")}
    again = uncertainty.run(
        dataclasses.replace(
            config,
            tasks=("attack",),
            systems=("mnf",),
            cubic_steps=5,
            epsilons=(0.1, 0.3),
            random_label_steps=7,
        )  # fmt: skip
    )
    assert {p: p.stat().st_mtime_ns for p in fits} == fits
    metric = "attack/0.3/nll"
    found = again["images"].rows.set_index("metric")["value"][metric]
    assert found == values(results["images"], metric)["mnf"]
    with pytest.raises(ValueError, match="--cubic_steps: 5 now, 40 there"):
        uncertainty.run(
            dataclasses.replace(config, tasks=("cubic",), cubic_steps=5)
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ("seen",)}, "--tasks must be one of unseen, attack"),
        ({"systems": ("nothing",)}, "--systems must hold names of map"),
        ({"classes": (1,)}, "--classes: `classes` must be two or more"),
        ({"epsilons": (-1.0,)}, "--epsilons must not be negative"),
        ({"epsilons": (float("nan"),)}, "--epsilons must not be negative"),
        ({"learning_rate": float("nan")}, "--learning_rate must be positive"),
        ({"unseen": ("digits",)}, "--unseen must name some of"),
        ({"log_var_init": 2000.0}, r"`log_var_init` must be in \[-40, 40\]"),
        ({"max_std": 0.0}, "--max_std must be positive"),
        ({"prior_scale": "0"}, "`prior_scale` must be a positive"),
        ({"model": "resnet20"}, "has no multiplicative layers"),
        ({"random_label_examples": 5000}, "at most 1437, the training images"),
        ({"mnf_flow_length": -1}, "--mnf_flow_length must be at least 0"),
        ({"dataset": "nothing"}, "nothing"),
        ({"dataset": "yacht"}, "--dataset must be of the kind images"),
    ],
)
def test_wrong_fields_are_explained_before_any_work(tmp_path, changes, message):
    path = tmp_path / "out"
    changes = {"systems": ("ffg", "mnf"), **changes}
    with pytest.raises((ValueError, OSError), match=message):
        uncertainty.run(dataclasses.replace(QUICK, output_dir=path, **changes))
    assert not path.exists()


@pytest.mark.slow
def test_command_continues_the_run(finished, capsys):
    config, _ = finished
    assert program_in_process.run("uncertainty", *config.flags()) == 0
    output = capsys.readouterr().out
    for text in ("AUROC", "strength", "Random labels", "MNF"):
        assert text in output
