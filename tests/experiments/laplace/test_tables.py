"""Curves over flow lengths, and remarks on the sampler."""

import types

import pytest

from tfp_refine.experiments import laplace
from tfp_refine.experiments import report
from tfp_refine.experiments.harness import tables as tables_lib
from tfp_refine.experiments.laplace import tables


def frame(values, seed=0):
    return [
        ("digits", system, seed, metric, value)
        for system, metrics in values.items()
        for metric, value in metrics.items()
    ]


def results(rows):
    rows = tables_lib.frame(rows)
    return types.SimpleNamespace(
        rows=rows,
        config=laplace.Config(),
        titles={system: system.upper() for system in rows["system"]},
    )


def test_curves_are_means_by_length():
    rows = []
    for seed, shift in enumerate((-1.0, 1.0)):
        rows += frame(
            {
                "map": {"nll": 9.0},
                "laplace": {"mmd": 8.0 + shift, "elbo": 7.0},
                "flows(flow_length=10)": {"mmd": 4.0 + shift, "elbo": 5.0},
                "flows": {"mmd": 3.0 + shift, "elbo": 6.0},
                "flows(flow_base=standard_normal, flow_length=1)": {
                    "mmd": 2.0 + shift,
                    "elbo": 1.0,
                    "nll": 2.0,
                },
                "flows(laplace_all, flow_kind=planar)": {
                    "mmd": 0.0 + shift,
                    "elbo": 0.5,
                },
                "nuts": {"mmd": 0.1, "fit_seconds": 3.0},
            },
            seed,
        )
    curves, references = tables.length_curves(results(rows))
    assert curves == {
        "refined": {"length": [5, 10], "mmd": [3.0, 4.0], "elbo": [6.0, 5.0]},
        "from N(0, I)": {"length": [1], "mmd": [2.0], "elbo": [1.0]},
        "refined (laplace_all, flow_kind=planar)": {
            "length": [5],
            "mmd": [0.0],
            "elbo": [0.5],
        },
    }
    assert references == {
        "LAPLACE": {"mmd": 8.0, "elbo": 7.0},
        "NUTS": {"mmd": pytest.approx(0.1), "seconds": 3.0},
    }


def test_without_flows_there_are_no_curves():
    curves, _ = tables.length_curves(results(frame({"map": {"nll": 1.0}})))
    assert not curves


def test_chains_that_have_not_mixed_are_told_once(tmp_path, capsys):
    shown = results(
        frame(
            {
                "map": {"nll": 1.0},
                "laplace": {"nll": 1.0, "mmd": 0.5},
                "nuts": {"nll": 1.0, "mmd": 0.1, "max_r_hat": 1.2},
            }
        )
    )
    shown.experiment, shown.kind, shown.path = "laplace", "table", tmp_path
    shown.details, shown.reasons = {n: {0: {}} for n in shown.titles}, {}
    shown.facts = dict.fromkeys(
        ("num_train", "num_validation", "num_test", "num_weights"), 1
    )
    filled = {"learning_rate": 0.1, "model": "mlp", "train_steps": 1}
    shown.given = shown.config = laplace.Config(**filled)
    report.show(shown, tables.comparison(shown, None))
    text = " ".join(capsys.readouterr().out.split())
    assert "Distances to NUTS" in text
    assert text.count("R-hat") == 1
    assert "Raise --nuts_warmup" in text
