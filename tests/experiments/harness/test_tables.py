import math
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from tfp_refine.experiments.harness import tables


def frame(metric, dataset="yacht", **values):
    """Returns the rows of a metric: lists of values by system."""
    return tables.frame(
        (dataset, system, seed, metric, value)
        for system, of_system in values.items()
        for seed, value in enumerate(of_system)
        if value is not None
    )


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def best(table):
    """Returns the labels of the rows with a highlighted cell."""
    return [row[0].text for row in table.rows if any(c.is_best for c in row)]


@pytest.fixture
def several():
    return tables.summary(
        pd.concat(
            [
                frame("nll", map=[0.3, 0.5], other=[0.2, 0.2]),
                frame("accuracy", map=[0.9, 0.8], other=[0.85, 0.849]),
                frame("num_steps", map=[100, 100], other=[1, 3]),
                frame("seconds", map=[1.0, 3.0]),
            ]
        ),
        ["seconds", "nll", "accuracy", "num_steps", "rmse"],
        {"other": "a|b <c>", "map": "MAP", "absent": "not there"},
    )


def test_a_summary_as_markdown(several):
    assert several.to_markdown().splitlines() == [
        "|  | seconds | NLL | accuracy | gradient steps |",
        "| --- | --: | --: | --: | --: |",
        "| a\\|b <c> | - | **0.2000 ± 0.0000** | 0.8495 ± 0.0007 | 2 ± 1 |",
        "| MAP | 2.0 ± 1.4 | 0.4000 ± 0.1414 | 0.8500 ± 0.0707 | 100 |",
        "",
        *several.notes,
    ]
    assert several.notes[0].startswith("Mean ± standard deviation over 2 seeds")


def test_a_summary_as_html(several):
    root = ElementTree.fromstring(f"<div>{several.to_html()}</div>")
    rows = [["".join(c.itertext()) for c in row] for row in root.iter("tr")]
    assert rows[0] == ["", "seconds", "NLL", "accuracy", "gradient steps"]
    assert rows[1:] == texts(several)
    assert [bold.text for bold in root.iter("b")] == ["0.2000 ± 0.0000"]
    notes = ["".join(p.itertext()) for p in root.iter("p")]
    assert notes == several.notes


def test_a_summary_as_text_is_aligned(several):
    assert several.to_text().splitlines()[:5] == [
        "                                                       gradient",
        "           seconds               NLL         accuracy     steps",
        "---------------------------------------------------------------",
        "a|b <c>          -  0.2000 ± 0.0000*  0.8495 ± 0.0007     2 ± 1",
        "MAP      2.0 ± 1.4  0.4000 ± 0.1414   0.8500 ± 0.0707       100",
    ]


@pytest.mark.parametrize("width", [30, 60, 100])
def test_text_fits_its_width_and_loses_nothing(width):
    names = [f"unseen/data_{i}/auroc" for i in range(12)]
    table = tables.summary(
        pd.concat([frame(name, map=[0.1, 0.2]) for name in names]),
        ["unseen/*/auroc"],
        {"map": "refined of a very long name, which fills more than a line"},
    )
    text = table.to_text(width)
    assert max(map(len, text.splitlines())) <= max(width, 40 + 2 + 15)
    assert text.count("0.1500 ± 0.0707") == 12
    assert "data_11" in text


def test_a_summary_is_what_pandas_computes_of_the_rows(tmp_path):
    rng = np.random.default_rng(0)
    rows = frame("rmse", a=rng.normal(size=4), b=rng.normal(size=4))
    rows.to_csv(tmp_path / "results.csv", index=False)
    read = pd.read_csv(tmp_path / "results.csv")
    of = read.groupby(["system", "metric"])["value"].agg(["mean", "std"])
    table = tables.summary(tables.frame(read), ["rmse"])
    assert texts(table) == [
        [name, "{:.3f} ± {:.3f}".format(*of.loc[name, "rmse"])]
        for name in ("a", "b")
    ]


@pytest.mark.parametrize(
    ("metric", "values", "expected"),
    [
        ("nll", {"a": [1.0, 5.0], "b": [1.1, 5.1]}, ["a"]),  # in each seed
        ("nll", {"a": [1.0, 2.0], "b": [2.0, 1.2]}, []),  # by chance
        ("accuracy", {"a": [0.1, 0.5], "b": [0.2, 0.7]}, ["b"]),
        ("coverage", {"low": [0.9] * 2, "near": [0.97] * 2, "all": [1.0] * 2},
         ["near"]),
        ("epistemic", {"a": [1.0, 1.0], "b": [2.0, 2.0]}, []),
        ("accuracy", {"a": [math.inf] * 2, "b": [0.1] * 2, "c": [0.2] * 2},
         ["c"]),
        ("nll", {"a": [1.0, 1.0], "b": [1.0, 1.0]}, []),
        ("nll", {"a": [1.0], "b": [2.0]}, []),  # one seed
        ("nll", {"a": [1.0, 1.0]}, []),  # one system
    ],
)  # fmt: skip
def test_the_best_is_marked_where_it_is_not_by_chance(metric, values, expected):
    assert best(tables.summary(frame(metric, **values), [metric])) == expected


def test_systems_that_lack_seeds_are_shown_and_not_compared():
    rows = pd.concat(
        [
            frame("nll", a=[3.0, 4.0, 5.0], b=[1.0, 2.0], c=[4.0, 5.0, 6.0]),
            frame("ece", a=[0.1, 0.1, 0.1], b=[0.1, 0.1], c=[0.1, math.nan]),
        ]
    )
    table = tables.summary(rows, ["nll", "ece"])
    assert texts(table) == [
        ["a", "4.0000 ± 1.0000", "0.1000 ± 0.0000"],
        ["b (2 of 3 seeds)", "1.5000 ± 0.7071", "0.1000 ± 0.0000"],
        ["c", "5.0000 ± 1.0000", "0.1000 (n=1)"],
    ]
    assert best(table) == ["a"]


def test_one_seed_has_no_deviation_and_says_so():
    table = tables.summary(frame("nll", a=[1.0], b=[2.0]), ["nll"])
    assert texts(table) == [["a", "1.0000"], ["b", "2.0000"]]
    assert table.notes == ["One seed: differences may be due to chance."]


def test_data_sets_are_compared_for_themselves():
    rows = pd.concat(
        [
            frame("nll", a=[1.0, 1.0], b=[2.0, 2.0]),
            frame("nll", "boston", a=[5.0, 5.0], b=[4.0, 4.0]),
            frame("ece", "boston", c=[0.1, 0.2]),
        ]
    )
    table = tables.summary(rows, ["nll"])
    assert [row[0] for row in texts(table)] == [
        "yacht: a", "yacht: b", "boston: a", "boston: b", "boston: c"
    ]  # fmt: skip
    assert best(table) == ["yacht: a", "boston: b"]
    labels = [row[0] for row in texts(tables.paired(rows, "nll"))]
    assert labels == ["yacht: b − a", "boston: a − b"]


def test_differences_are_paired():
    rows = frame("nll", a=[1.0, 2.0, 6.0], b=[1.5, 1.0, 9.0], c=[None, 3.0])
    table = tables.paired(rows, "nll", "b", {"a": "A", "b": "B", "c": "C"})
    difference = np.array([-0.5, 1.0, -3.0])
    error = difference.std(ddof=1) / np.sqrt(3)
    assert texts(table) == [
        ["A − B", f"{difference.mean():+.4f}", f"{error:.4f}", "2 of 3"],
        ["C − B", "+2.0000", "-", "0 of 1"],
    ]
    of_best = tables.paired(rows, "nll")
    assert [row[0] for row in texts(of_best)] == ["b − a", "c − a"]
    higher = tables.paired(frame("accuracy", a=[1.0, 0.0], b=[0.5] * 2),
                           "accuracy", "a")  # fmt: skip
    assert texts(higher)[0][1:] == ["+0.0000", "0.5000", "1 of 2"]
    neither = tables.paired(frame("entropy", a=[1.0], b=[2.0]), "entropy")
    assert texts(neither) == [["b − a", "+1.0000", "-"]]


@pytest.mark.parametrize(
    ("metric", "reference", "message"),
    [
        ("ece", None, "`metric` must be one of 'nll'.* metric='ece'"),
        ("nll", "x", "`reference` must be one of 'a', 'b'.* reference='x'"),
    ],
)
def test_differences_to_what_is_missing_are_refused(metric, reference, message):
    with pytest.raises(ValueError, match=message):
        tables.paired(frame("nll", a=[1.0], b=[1.0]), metric, reference)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("d", "s", 0.5, "nll", 1.0)], "whole numbers as seeds"),
        ([("d", "s", "x", "nll", 1.0)], "whole numbers as seeds"),
        ([("d", "s", 0, "nll", "low")], "numbers as values.*low"),
        ([("d", "s", 0, "nll", 1.0)] * 2, "two for .*'s', .*0.*'nll'"),
        ([{"dataset": "d", "system": "s"}], "no seed, metric, value"),
    ],
)
def test_rows_that_are_no_results_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        tables.frame(rows)


def test_no_rows_are_a_table_without_entries():
    empty = tables.frame([])
    assert list(empty) == list(tables.COLUMNS)
    table = tables.summary(empty, ["nll"])
    assert (table.head, table.rows, table.notes) == ([""], [], [])
    for render in (table.to_text, table.to_markdown, table.to_html):
        assert isinstance(render(), str)


@pytest.mark.parametrize(
    ("name", "head", "better"),
    [
        ("nll", "NLL", "low"),
        ("unseen/fashion_mnist/auroc", "AUROC, fashion_mnist", "high"),
        ("shift/rotation/30/accuracy", "accuracy, rotation 30", "high"),
        ("curve/1000/nll", "NLL, step 1000", "low"),
        ("kilobytes", "kept (kB)", None),
        ("attack/0.1/some_thing", "some thing, attack 0.1", None),
    ],
)
def test_titles_of_metrics(name, head, better):
    metric = tables.metric_of(name)
    assert (metric.head, metric.better) == (head, better)


def test_columns_of_words_stand_left_and_names_break_at_spaces():
    table = tables.Table(
        ["", "a<b", "by"],
        [["I-BLM, x", tables.Cell("-1", True), "me 1"], ["y", "inf", "-"]],
        ["not <applied>"],
    )
    root = ElementTree.fromstring(f"<div>{table.to_html()}</div>")
    assert [c.get("class") for c in root.iter("td")] == [None, "text"] * 2
    assert [s.text for s in root.findall(".//tr/th/span")] == [
        "a<b", "I-BLM,"
    ]  # fmt: skip
    assert table.to_text().splitlines()[2] == "I-BLM, x   -1*  me 1"


def test_rows_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"lengths \[2\], head=\['a'\]"):
        tables.Table(["a"], [["x", "y"]])
