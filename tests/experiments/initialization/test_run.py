"""The comparison of initializers, run from Python and as a command."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from tests.support import program_in_process
from tfp_refine.experiments import initialization
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import training
from tfp_refine.experiments.systems import networks

SYSTEMS = ("heuristic", "iblm", "mc_dropout")
QUICK = initialization.Config(
    dataset="yacht", systems=SYSTEMS, seeds=1, train_steps=20, segments=2,
    num_samples=8, hidden=(10, 10), toy_steps=10, toy_points=60,
    progress=False,
)  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("initialization")
    config = dataclasses.replace(QUICK, output_dir=path)
    return config, initialization.run(config)


def values(results, metric):
    rows = results.rows[results.rows["metric"] == metric]
    return rows.set_index("system")["value"]


@pytest.mark.slow
def test_each_system_has_a_curve_from_before_training_on(finished):
    _, results = finished
    curves = results["curves"]
    for step in (0, 10, 20):
        for metric in ("rmse", "nll"):
            found = values(curves, f"curve/{step}/{metric}")
            assert list(found.index) == list(SYSTEMS)
            assert np.all(np.isfinite(found))
    pd.testing.assert_series_equal(
        values(curves, "curve/20/nll"), values(curves, "nll")
    )
    start = values(curves, "curve/0/rmse")
    # Yacht's target has a standard deviation of 15; linear fits leave 9.
    assert start["iblm"] < 12.0 < start["heuristic"]
    assert np.all(values(curves, "initialization_seconds") >= 0.0)


@pytest.mark.slow
def test_the_toy_has_predictions_before_training_and_after_it(finished):
    config, results = finished
    toy = results["toy"]
    for metric in ("rmse_before", "rmse_at_data", "scale_far"):
        assert list(values(toy, metric).index) == list(SYSTEMS)
    for system in SYSTEMS:
        details = toy.details[system][0]
        before, after = details["bands_before"], details["bands"]
        assert len(before["mean"]) == len(after["scale"])
        assert min(after["scale"]) > 0.0
        assert before["mean"] != after["mean"]
    if page.can_plot():
        for name in ("curves/curves", "toy/toy_before", "toy/toy_after"):
            path = results["toy"].path.parent / f"{name}.png"
            assert path.stat().st_size > 10000


@pytest.mark.slow
def test_rows_of_all_tasks_are_together_and_a_second_run_is_the_same(finished):
    config, results = finished
    path = results["toy"].path.parent
    before = pd.read_csv(path / "results.csv")
    assert set(before["dataset"]) == {"yacht", "toy"}
    again = initialization.run(dataclasses.replace(config, toy_steps=10))
    for task, of_task in results.items():
        pd.testing.assert_frame_equal(again[task].rows, of_task.rows)
    with pytest.raises(ValueError, match="--toy_steps: 11 now, 10 there"):
        initialization.run(dataclasses.replace(config, toy_steps=11))


@pytest.mark.slow
def test_images_have_entropies_too(tmp_path):
    results = initialization.run(
        dataclasses.replace(
            QUICK,
            output_dir=tmp_path,
            dataset="digits",
            tasks=("curves",),
            systems=("iblm", "mc_dropout"),
            model="mlp",
        )  # fmt: skip
    )["curves"]
    for of_seed in results.details.values():
        unseen = of_seed[0]["unseen_entropies"]["turned"]
        assert len(unseen) == len(of_seed[0]["entropies"]["test"]) == 360
        assert 0.0 < max(unseen) <= np.log(10.0) + 1e-6
    assert values(results, "curve/0/accuracy")["iblm"] > 0.7
    if page.can_plot():
        assert (results.path / "entropies.png").exists()


@pytest.mark.slow
def test_each_system_is_initialized_once_also_after_a_stop(
    tmp_path, monkeypatch
):
    initialized, initialize = [], networks.initialize

    def count(network, *arguments):
        initialized.append(network.initializer)
        initialize(network, *arguments)

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(networks, "initialize", count)
    config = dataclasses.replace(
        QUICK, output_dir=tmp_path, tasks=("curves",), systems=("iblm",)
    )
    with monkeypatch.context() as patch:
        patch.setattr(training, "train", stop)
        with pytest.raises(KeyboardInterrupt):
            initialization.run(config)
    results = initialization.run(config)["curves"]
    assert initialized == ["iblm"]
    # That of a heuristic initialization is above it.
    assert values(results, "curve/0/rmse")["iblm"] < 12.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ("seen",)}, "--tasks must be one of curves, toy"),
        ({"systems": ("nothing",)}, "--systems must hold names of map"),
        ({"dropout": 1.0}, "--dropout must be above 0 and below 1"),
        ({"model": "lenet5"}, "--model=lenet5 is not for --kind=regression"),
        ({"hidden": ()}, "--hidden must not be empty"),
        ({"prior_scale": "0"}, "`prior_scale` must be a positive finite"),
        ({"prior_scale": "wide"}, "`prior_scale` must be a positive number or"),
        ({"noise_scale": 0.0}, "--noise_scale must be positive"),
        ({"unseen": ("mnist",)}, "--unseen has no meaning for --dataset=yacht"),
        ({"dataset": "boston"}, "is not embedded"),
        ({"kind": "table"}, "must be one of breast_cancer, digits"),
        ({"dataset": "digits", "activation": "relu", "model": "resnet20",
          "systems": ("mnf",)}, "no multiplicative layers"),
    ],
)  # fmt: skip
def test_wrong_fields_are_explained_before_any_work(tmp_path, changes, message):
    path = tmp_path / "out"
    with pytest.raises((ValueError, OSError), match=message):
        initialization.run(
            dataclasses.replace(QUICK, output_dir=path, **changes)
        )
    assert not path.exists()


@pytest.mark.slow
def test_command_continues_the_run(finished, capsys):
    config, _ = finished
    assert program_in_process.run("initialization", *config.flags()) == 0
    output = capsys.readouterr().out
    assert "Medians over repetitions" in output
    assert "of 1 cases" in output
