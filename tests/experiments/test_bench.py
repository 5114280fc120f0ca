"""Runs of a bench whose measurements need no fit, and so take no time."""

import csv
import json
import logging

import pytest

from tfp_refine.experiments import bench
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder

NLL = {"map": 3.0, "vi": 2.0, "cm": 1.0}


class Recorder:
    """Measures a system by its name; records its calls, and fails.

    Args:
        failing: Dict from a system and a seed to an error.
    """

    def __init__(self, failing=None):
        self.failing, self.calls = failing or {}, []

    def __call__(self, subject):
        call = subject.expression.name, subject.repetition.number
        self.calls.append(call)
        if call in self.failing:
            raise self.failing[call]
        name, seed = call
        nll = NLL[name] + seed / 10 + subject.config.num_samples / 1000
        return {"nll": nll, "unknown": None}, {"curve": [seed]}


def make(path, measure, experiment="test", kinds=fields.KINDS, **values):
    values = {"dataset": "iris", "systems": ("map", "vi")} | values
    config = fields.Bench(output_dir=str(path), **values)
    measures = [bench.Measure("test", measure, ("num_samples",))]
    return bench.Bench(experiment, config, measures, kinds=kinds)


def values_of(results):
    rows = results.rows.itertuples()
    return {(row.system, row.seed, row.metric): row.value for row in rows}


@pytest.fixture
def whole(tmp_path):
    """Values of a run that was not stopped."""
    return values_of(make(tmp_path / "whole", Recorder()).run())


def test_results_hold_what_was_measured_of_each_system_and_seed(tmp_path):
    measure = Recorder()
    results = make(tmp_path, measure).run()
    assert values_of(results) == {
        ("map", 0, "nll"): pytest.approx(3.1),
        ("vi", 0, "nll"): pytest.approx(2.1),
        ("map", 1, "nll"): pytest.approx(3.2),
        ("vi", 1, "nll"): pytest.approx(2.2),
    }
    assert set(results.rows["dataset"]) == {"iris"}
    assert results.details["vi"] == {0: {"curve": [0]}, 1: {"curve": [1]}}
    assert results.titles == {"map": "MAP", "vi": "VI"}
    assert results.reasons == {}
    assert results.kind == "table"
    assert results.facts == {
        "num_train": 120,
        "num_validation": 0,
        "num_test": 30,
        "num_weights": 4 * 50 + 50 + 50 * 3 + 3,
    }
    assert results.given.train_steps is None
    assert results.config.train_steps == 8000


def test_results_csv_holds_the_same_rows(tmp_path):
    results = make(tmp_path, Recorder()).run()
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {
        (row["system"], int(row["seed"]), row["metric"]): float(row["value"])
        for row in rows
    } == values_of(results)


def test_a_stopped_run_continues_where_it_was(tmp_path, whole):
    stopped = Recorder({("map", 1): KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, stopped).run()
    assert stopped.calls == [("map", 0), ("vi", 0), ("map", 1)]
    measure = Recorder()
    assert values_of(make(tmp_path, measure).run()) == whole
    assert measure.calls == [("map", 1), ("vi", 1)]


def test_ctrl_c_that_a_library_wraps_stops_the_run(tmp_path):
    error = RuntimeError("while something else was handled")
    error.__context__ = KeyboardInterrupt()
    measure = Recorder({("map", 0): error})
    with pytest.raises(RuntimeError):
        make(tmp_path, measure).run()
    assert measure.calls == [("map", 0)]


def test_systems_and_seeds_can_be_added(tmp_path, whole):
    make(tmp_path, Recorder(), systems=("map",), seeds=1).run()
    measure = Recorder()
    assert values_of(make(tmp_path, measure).run()) == whole
    assert measure.calls == [("vi", 0), ("map", 1), ("vi", 1)]


def test_a_field_of_a_measure_is_measured_anew_beside_the_old(tmp_path):
    make(tmp_path, Recorder(), systems=("map",), seeds=1).run()
    other, again = Recorder(), Recorder()
    few = {"systems": ("map",), "seeds": 1, "num_samples": 50}
    results = make(tmp_path, other, **few).run()
    assert values_of(results) == {("map", 0, "nll"): pytest.approx(3.05)}
    make(tmp_path, again, systems=("map",), seeds=1).run()
    assert (len(other.calls), len(again.calls)) == (1, 0)


def test_options_of_a_system_give_it_results_of_its_own(tmp_path):
    measure = Recorder()
    systems = ("cm", "cm(alpha_reg=0.5)")
    results = make(tmp_path, measure, systems=systems, seeds=1).run()
    assert list(results.titles) == list(systems)
    assert len(measure.calls) == 2


def test_the_failure_of_a_system_leaves_the_others(tmp_path, caplog):
    caplog.set_level(logging.ERROR, "absl")
    failing = {("vi", 1): ValueError("A line\nand another.")}
    results = make(tmp_path, Recorder(failing)).run()
    assert set(values_of(results)) == {
        ("map", 0, "nll"), ("vi", 0, "nll"), ("map", 1, "nll")
    }  # fmt: skip
    reason = "failed. ValueError: A line and another."
    assert results.reasons == {"vi": reason}
    record = json.loads((tmp_path / "results.json").read_text())
    assert record["notes"]["reasons"] == {"vi": reason}
    assert "vi failed: A line" in caplog.text
    # A failure is no result: it is tried again.
    again = Recorder()
    assert make(tmp_path, again).run().reasons == {}
    assert again.calls == [("vi", 1)]


@pytest.mark.parametrize(
    "error", [OSError("The disk is full."), folder.DamagedError("A record.")]
)
def test_an_error_of_the_folder_stops_the_run(tmp_path, error):
    with pytest.raises(type(error)):
        make(tmp_path, Recorder({("map", 0): error})).run()


def test_if_all_systems_fail_the_error_has_the_reasons(tmp_path):
    failing = {
        (name, seed): FloatingPointError(f"NaN in {name}")
        for name in ("map", "vi")
        for seed in (0, 1)
    }
    with pytest.raises(ValueError, match="NaN in map.* vi: .*NaN in vi"):
        make(tmp_path, Recorder(failing)).run()


def test_systems_that_cannot_be_applied_are_left_out_with_the_reason(
    tmp_path, caplog
):
    caplog.set_level(logging.WARNING, "absl")
    measure = Recorder()
    systems = ("map", "temperature")
    results = make(tmp_path, measure, systems=systems, seeds=1).run()
    assert measure.calls == [("map", 0)]
    assert results.reasons == {
        "temperature": "not applied. Temperature scaling needs a "
        "--validation_fraction."
    }
    assert "temperature is left out: Temperature scaling" in caplog.text


def test_it_is_refused_to_start_if_no_system_can_be_applied(tmp_path):
    with pytest.raises(ValueError, match="None of --systems .*--validation"):
        make(tmp_path / "new", Recorder(), systems=("temperature",))
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": 1}, "--seed: 1 now, 0 there"),
        ({"hidden": (8,)}, "--hidden: "),
        ({"dataset": "wine"}, "--dataset: .*wine.* now"),
        ({"validation_fraction": 0.1}, "--validation_fraction: 0.1 now"),
        ({"experiment": "other"}, 'experiment: "other" now, "test" there'),
    ],
)
def test_a_folder_of_another_configuration_is_refused(
    tmp_path, values, message
):
    make(tmp_path, Recorder(), seeds=1).run()
    before = (tmp_path / "results.csv").read_text()
    with pytest.raises(ValueError, match=message):
        make(tmp_path, Recorder(), seeds=1, **values).run()
    assert (tmp_path / "results.csv").read_text() == before


@pytest.mark.parametrize(
    ("systems", "message"),
    [
        (("magic",), "must hold names of map, vi.* Received: magic in magic"),
        (("refined(magic)",), "Received: magic in refined"),
        (("vi", "cm", "vi"), "each system once. Received: vi,cm,vi"),
        (("refined", "refined(vi)"), "each system once"),
        (("refined(map)",), "refined needs a Gaussian posterior"),
        (("cm(vi, magic=1)",), "options of cm are alpha_reg"),
        (("cm(vi, alpha_reg=2)",), "--alpha_reg must .*2"),
        (("vi(",), r"Received: vi\("),
        (("cm(cv)",), "sets the prior twice"),
    ],
)
def test_wrong_systems_are_refused_before_anything_runs(
    tmp_path, systems, message
):
    with pytest.raises(ValueError, match=message):
        make(tmp_path / "new", Recorder(), systems=systems)
    assert not (tmp_path / "new").exists()


def test_a_kind_of_data_that_an_experiment_does_not_take(tmp_path):
    with pytest.raises(ValueError, match="images or texts.*iris.*for table"):
        make(tmp_path, Recorder(), kinds=("images", "texts"))


def test_epochs_are_counted_in_steps(tmp_path):
    made = make(tmp_path, Recorder(), epochs=3, batch_size=50)
    assert made.config.train_steps == 3 * (120 // 50)


def test_the_report_is_called_after_each_repetition(tmp_path):
    shown = []
    failing = {("map", 0): ValueError(), ("vi", 0): ValueError()}
    make(tmp_path, Recorder(failing)).run(
        lambda results: shown.append(set(results.rows["seed"]))
    )
    assert shown == [{1}]
    shown.clear()
    make(tmp_path, Recorder()).run(
        lambda results: shown.append(set(results.rows["seed"]))
    )
    assert shown == [{0}, {0, 1}]
