"""The comparison, from Python and as a command."""

import dataclasses

import keras
import numpy as np
import pandas as pd
import pytest

from tests.support import experiment_command
from tfp_refine import datasets
from tfp_refine.experiments import bench
from tfp_refine.experiments import laplace
from tfp_refine.experiments.harness import folder
from tfp_refine.experiments.laplace import integration
from tfp_refine.experiments.laplace import tables

pytestmark = pytest.mark.filterwarnings("ignore:The chains have not mixed")

QUICK = {
    "tasks": ("comparison",), "model": "mlp", "hidden": (8,),
    "train_steps": 60, "learning_rate": 0.02, "num_samples": 20,
    "flow_epochs": 2, "nuts_warmup": 30, "nuts_samples": 20, "nuts_chains": 2,
    "shift_examples": 50, "progress": False,
}  # fmt: skip
SYSTEMS = (
    "map", "temperature", "laplace", "flows(flow_length=1)",
    "flows(flow_length=3)", "flows(flow_base=standard_normal, flow_length=1)",
    "flows(flow_base=standard_normal, flow_length=3)", "nuts",
)  # fmt: skip


def config(path, **options):
    return laplace.Config(output_dir=str(path), **QUICK | options)


def run(made):
    return laplace.run(made)["comparison"]


def values(results, metric):
    rows = results.rows[results.rows["metric"] == metric]
    return dict(zip(rows["system"], rows["value"], strict=True))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("laplace")
    made = config(path, systems=SYSTEMS, rotations=(30.0,))
    return made, run(made)


@pytest.mark.slow
def test_each_system_is_evaluated(finished):
    made, results = finished
    assert tuple(results.rows["system"].unique()) == SYSTEMS
    assert not results.reasons
    accuracy, nll = values(results, "accuracy"), values(results, "nll")
    for system in SYSTEMS:
        # Two epochs from N(0, I) lead nowhere.
        least = 0.05 if "normal" in system else 0.4
        assert least < accuracy[system] <= 1.0
        assert 0.0 < nll[system] < np.inf
    for metric in (
        "unseen/turned/fpr95",
        "unseen/shuffled/auroc",
        "shift/rotation/30/accuracy",
        "fit_seconds",
    ):
        assert set(values(results, metric)) == set(SYSTEMS), metric
    assert set(values(results, "mmd")) == {*SYSTEMS} - {"temperature"}
    elbo = values(results, "elbo")
    assert set(elbo) == {*SYSTEMS} - {"map", "temperature", "nuts"}
    assert accuracy["temperature"] == accuracy["map"]
    assert elbo["laplace"] > elbo[SYSTEMS[5]]
    for name in ("flow_length", "reliability", "report"):
        ending = "html" if name == "report" else "png"
        assert (results.path / f"{name}.{ending}").stat().st_size > 10000
    assert "Distances to NUTS" in (results.path / "report.md").read_text()


@pytest.mark.slow
def test_distances_are_least_for_the_reference_itself(finished):
    mmd = values(finished[1], "mmd")
    assert mmd["nuts"] < mmd["laplace"] < mmd["map"]


@pytest.mark.slow
def test_another_evaluation_fits_nothing_anew(finished, capsys):
    made, results = finished

    def times():
        return {
            path: path.stat().st_mtime_ns
            for path in results.path.glob("seed_0/*/fit/*")
        }

    before = times()
    again = run(
        dataclasses.replace(made, num_samples=10, systems=("laplace", "nuts"))
    )
    assert before
    assert times() == before
    assert tuple(again.rows["system"].unique()) == ("laplace", "nuts")
    assert values(again, "nll") != values(results, "nll")
    for system, value in values(again, "mmd").items():
        assert value == values(results, "mmd")[system]
    assert "the chains have not mixed (R-hat" in capsys.readouterr().out


@pytest.mark.slow
def test_without_a_reference_that_works_there_is_all_but_a_distance(
    tmp_path, monkeypatch
):
    def fail(*_, **__):
        raise FloatingPointError("The density is not finite.")

    monkeypatch.setattr("tfp_refine.sampling.nuts", fail)
    results = run(
        config(tmp_path, dataset="iris", systems=("map", "laplace", "nuts"))
    )
    assert set(values(results, "nll")) == {"map", "laplace"}
    assert not values(results, "mmd")
    assert "density is not finite" in results.reasons["nuts"]


@pytest.mark.slow
def test_a_reference_of_other_samples_has_other_distances(tmp_path):
    first, second = (
        run(
            config(
                tmp_path,
                dataset="iris",
                systems=("laplace", f"nuts(nuts_samples={count})"),
            )
        )
        for count in (20, 30)
    )
    assert values(first, "mmd")["laplace"] != values(second, "mmd")["laplace"]
    assert values(first, "nll")["laplace"] == values(second, "nll")["laplace"]


def digits_model(path):
    data = datasets.load_images("digits")
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(data.x_train / np.float32(255.0), data.y_train, verbose=0)
    model.save(path)
    return model, data


@pytest.mark.slow
def test_a_trained_model_is_taken_as_it_is(tmp_path):
    path = tmp_path / "mine.keras"
    model, data = digits_model(path)
    made = config(
        tmp_path / "out", model=str(path), systems=("map", "laplace"),
        rotations=(), unseen=("shuffled",), hessian="kron", scaling="unit",
    )  # fmt: skip
    results = run(made)
    expected = model.evaluate(
        data.x_test / np.float32(255.0), data.y_test, verbose=0
    )
    np.testing.assert_allclose(
        values(results, "nll")["map"], expected, rtol=1e-4
    )
    assert not list(results.path.glob("seed_0/map_*/fit/*"))
    model.layers[-1].bias.assign_add(np.arange(10.0))
    model.save(path)
    with pytest.raises(ValueError, match="another configuration.*weights"):
        run(made)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {
            "dataset": "wine",
            "systems": ("map", "laplace_all", "flows(laplace_all)"),
        },
        {"model": "gru", "predictive": "probit", "rotations": ()},
    ],
    ids=["table_all_layers", "gru_rows"],
)
def test_tables_and_recurrent_networks_have_posteriors_too(tmp_path, options):
    options = {
        "systems": ("map", "laplace", "flows(flow_length=1)"),
        "train_steps": 300,
        "unseen": ("shuffled",),
    } | options
    results = run(config(tmp_path, **options))
    assert tuple(results.rows["system"].unique()) == options["systems"]
    assert min(values(results, "accuracy").values()) > 0.5
    assert np.isfinite(list(values(results, "nll").values())).all()


def write_texts(root):
    rng = np.random.default_rng(0)
    words = {
        "up": ["high", "rise", "lift", "top"],
        "down": ["low", "fall", "sink"],
    }
    for split, count in (("train", 60), ("test", 20)):
        for kind, own in words.items():
            directory = root / "mine" / split / kind
            directory.mkdir(parents=True)
            for number in range(count):
                text = rng.choice([*own, "and", "the"], size=6)
                (directory / f"{number}.txt").write_text(" ".join(text))


@pytest.mark.slow
def test_texts_of_a_folder_are_read(tmp_path):
    write_texts(tmp_path)
    results = run(
        config(
            tmp_path / "out", data_dir=str(tmp_path), dataset="mine",
            kind="texts", model=None, sequence_length=8, embedding=8,
            train_steps=100, systems=("map", "laplace"),
            prior_precision="grid_search",
        )
    )  # fmt: skip
    assert min(values(results, "accuracy").values()) > 0.9
    assert set(values(results, "unseen/shuffled/auroc")) == {"map", "laplace"}


def test_each_of_several_tasks_has_a_folder(tmp_path, monkeypatch):
    def comparison(of, report):
        rows = [("d", "map", 0, "a", 1.0)]
        with folder.Folder(of.config.output_dir, "laplace", of.config, {}) as f:
            return f.write_results(rows)

    rows = [("i", "probit", 0, "b", 2.0)]
    monkeypatch.setattr(bench.Bench, "run", comparison)
    monkeypatch.setattr(integration, "run", lambda *_: (rows, {}))
    monkeypatch.setattr(tables, "show_integration", lambda *_: None)
    laplace.run(config(tmp_path, tasks=("comparison", "integration")))
    every = pd.read_csv(tmp_path / "results.csv")
    assert every["value"].tolist() == [1.0, 2.0]
    results = laplace.run(config(tmp_path, tasks=("integration",)))
    assert results["integration"].path == tmp_path / "integration"
    assert results["integration"].rows["value"].tolist() == [2.0]


@pytest.mark.slow
def test_a_run_that_was_killed_ends_with_the_same_numbers(finished, tmp_path):
    made, results = finished
    flags = dataclasses.replace(made, output_dir=str(tmp_path)).flags()
    command = experiment_command.Command("laplace", *flags)
    command.kill_when(
        lambda: [*tmp_path.glob("*/*/flows_flow_length_1*/fit/*.posterior")]
    )
    process = command.run()
    assert process.returncode == 0, process.stderr
    keys = ["system", "metric", "value"]
    ours, theirs = (
        folder.tables.frame(folder.read_json(path / "results.json")["rows"])
        for path in (tmp_path / "comparison", results.path)
    )
    costs = ("seconds", "memory")
    ours, theirs = (
        {
            (row["system"], row["metric"]): row["value"]
            for row in rows[keys].to_dict("records")
            if not row["metric"].endswith(costs)
        }
        for rows in (ours, theirs)
    )
    # The results there may be those of another evaluation.
    shared = [key for key in theirs if key[1] in ("mmd", "elbo")]
    assert shared
    for key in shared:
        assert ours[key] == theirs[key], key
