import math
from xml.etree import ElementTree

import pytest

from tfp_refine.experiments import report_table

COLUMNS = {
    "nll": report_table.Column("NLL", 3, "low"),
    "accuracy": report_table.Column("accuracy", 2, "high"),
    "seconds": report_table.Column("seconds", 1),
    "ece": report_table.Column("ECE", 3, "low"),
}


@pytest.fixture
def several():
    return report_table.table(
        {
            "MAP": [
                {"nll": 0.3, "accuracy": 0.9, "seconds": 1.0},
                {"nll": 0.5, "accuracy": 0.8, "seconds": 3.0},
            ],
            "a|b <c>": [
                {"nll": 0.2, "accuracy": 0.85},
                {"nll": 0.2, "accuracy": 0.849},
            ],
        },
        COLUMNS,
        {"NUTS": "not applied. Too many weights."},
    )


def test_the_best_means_are_bold_with_deviations(several):
    assert several.to_markdown().splitlines() == [
        "|  | NLL | accuracy | seconds |",
        "| --- | --- | --- | --- |",
        "| MAP | 0.400 ± 0.141 | **0.85 ± 0.07** | 2.0 ± 1.4 |",
        "| a\\|b <c> | **0.200 ± 0.000** | **0.85 ± 0.00** | - |",
        "| NUTS | - | - | - |",
        "",
        "Means ± standard deviations over 2 seeds.",
        "",
        "NUTS: not applied. Too many weights.",
    ]


def test_html_says_the_same(several):
    root = ElementTree.fromstring(f"<div>{several.to_html()}</div>")
    rows = [
        ["".join(cell.itertext()) for cell in row] for row in root.iter("tr")
    ]
    assert rows[0] == ["", "NLL", "accuracy", "seconds"]
    assert rows[2] == ["a|b <c>", "0.200 ± 0.000", "0.85 ± 0.00", "-"]
    assert [bold.text for bold in root.iter("b")] == [
        "0.85 ± 0.07",
        "0.200 ± 0.000",
        "0.85 ± 0.00",
    ]
    assert [p.text for p in root.iter("p")] == several.notes


def test_texts_and_numbers_stand_on_their_sides_and_stay_texts():
    table = report_table.Table(
        ["", "a<b", "by"],
        {"x": [report_table.Cell("1 < 2", True), report_table.Cell("me", 0)]},
        ["not <applied>"],
    )
    root = ElementTree.fromstring(f"<div>{table.to_html()}</div>")
    heads = [head.text or "" for head in root.iter("th")]
    assert heads == ["", "a<b", "by", "x"]
    assert [cell.get("class") for cell in root.iter("td")] == [None, "text"]
    assert root.find(".//b").text == "1 < 2"
    assert root.find("p").text == "not <applied>"


def test_one_seed_has_no_deviation_and_says_so():
    table = report_table.table({"MAP": [{"nll": 1.0}]}, COLUMNS)
    (cell,) = table.rows["MAP"]
    assert cell == ("1.000", False)  # the only one is not the best
    assert table.notes == ["One seed: how much it matters is not known."]


def test_what_is_infinite_is_never_the_best():
    table = report_table.table(
        {"A": [{"accuracy": math.inf}], "B": [{"accuracy": 0.1}],
         "C": [{"accuracy": 0.2}]},
        COLUMNS,
    )  # fmt: skip
    assert [row[0].is_best for row in table.rows.values()] == [
        False,
        False,
        True,
    ]


def test_what_is_best_may_be_near_a_number():
    columns = {"coverage": report_table.Column("coverage", 2, 0.95)}
    table = report_table.table(
        {
            "low": [{"coverage": 0.9}],
            "near": [{"coverage": 0.97}],
            "all": [{"coverage": 1.0}],
        },
        columns,
    )
    assert [cells[0].is_best for cells in table.rows.values()] == [
        False, True, False
    ]  # fmt: skip


def test_counts_have_no_spread():
    columns = {"steps": report_table.Column("steps", 0, has_spread=False)}
    table = report_table.table({"a": [{"steps": 1.0}, {"steps": 3.0}]}, columns)
    assert table.rows["a"][0].text == "2"


def test_a_method_without_all_seeds_is_shown_and_not_compared():
    table = report_table.table(
        {"MAP": [{"nll": 1.0}, {"nll": 5.0}], "VI": [{"nll": 1.1}]}, COLUMNS
    )
    assert list(table.rows) == ["MAP", "VI (1 of 2 seeds)"]
    ((whole,), (part,)) = table.rows.values()
    assert (whole.text, part.text) == ("3.000 ± 2.828", "1.100")
    assert not part.is_best
    assert table.notes == ["Means ± standard deviations over 2 seeds."]


def test_where_none_has_all_seeds_none_is_compared():
    table = report_table.table(
        {"MAP": [{"nll": 1.0}], "VI": [{"nll": 1.1}]}, COLUMNS, num_seeds=2
    )
    assert list(table.rows) == ["MAP (1 of 2 seeds)", "VI (1 of 2 seeds)"]
    assert not any(cell.is_best for (cell,) in table.rows.values())
