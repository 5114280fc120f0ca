"""Tables of the comparison of initializers."""

import types

import pytest

from tfp_refine.experiments import initialization
from tfp_refine.experiments.harness import tables as tables_lib
from tfp_refine.experiments.initialization import tables


def results_of(**curves):
    """Returns results: of each system a list of likelihoods, one a seed."""
    rows = [
        ("set", system, seed, f"curve/{10 * index}/{metric}", value)
        for system, of_seed in curves.items()
        for seed, nll in enumerate(of_seed)
        for index, value in enumerate(nll or ())
        for metric in ("nll", "rmse")
    ]
    return types.SimpleNamespace(
        rows=tables_lib.frame(rows), titles={name: name for name in curves}
    )


def last_cells(table):
    return {row[0].text: row[-1].text for row in table.rows}


def test_steps_are_sorted_as_numbers():
    curves = tables.curves_of(results_of(iblm=[range(12)]).rows)
    assert curves["iblm"][0]["step"] == list(range(0, 120, 10))
    assert curves["iblm"][0]["nll"] == list(range(12))


def test_it_is_counted_how_early_others_are_reached():
    results = results_of(
        heuristic=[(9.0, 8.0, 7.0, 5.0), (9.0, 8.0, 7.0, 1.0)],
        iblm=[(6.0, 5.0, 4.0, 8.0), (6.0, 5.0, 4.0, 2.0)],
    )
    table = tables.summarize(results)
    # After a third of the steps, and never: neither is the median.
    assert last_cells(table) == {"heuristic": "never", "iblm": "-"}
    assert table.rows[0][4].text == "3.000"
    found = tables.curves_of(results.rows)
    assert tables.parts_of(found["iblm"], found["heuristic"]) == [
        pytest.approx(1 / 3), float("inf"),
    ]  # fmt: skip
    note = tables.early(found, {"iblm": "VI, from I-BLM"})
    assert note.startswith("VI, from I-BLM has")
    assert "in 1 of 2 cases" in note


def test_repetitions_that_failed_are_told_and_left_out():
    results = results_of(
        lsuv=[None, None],
        heuristic=[None, (9.0, 3.0)],
        iblm=[(6.0, 2.0), (2.0, 1.0)],
    )
    table = tables.summarize(results)
    assert last_cells(table) == {
        "heuristic": "0% of the steps", "iblm": "-",
    }  # fmt: skip
    assert table.rows[0][4].text == "3.000"
    assert "heuristic (1 of 2)" in table.notes[-1]
    found = tables.curves_of(results.rows)
    assert "in 1 of 1 cases" in tables.early(found, results.titles)


def test_a_comparison_without_linear_models_has_no_note():
    results = results_of(heuristic=[(9.0, 3.0)])
    assert not tables.early(tables.curves_of(results.rows), results.titles)
    assert last_cells(tables.summarize(results)) == {"heuristic": "-"}


def test_images_have_convolutions_whatever_their_size():
    config = initialization.Config(dataset="digits")
    defaults = config.after_data("images", (8, 8, 1), 1000)
    assert defaults["model"] == "lenet5"
    assert config.after_data("table", (4,), 100)["model"] == "mlp"
