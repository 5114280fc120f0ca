"""Pages of reports."""

import base64
import re
from xml.etree import ElementTree

import pytest
from matplotlib import figure as figure_lib

from tfp_refine.experiments import report_page
from tfp_refine.experiments import report_table


@pytest.fixture
def written(tmp_path):
    figure = figure_lib.Figure(figsize=(1, 1))
    table = report_table.table(
        {"a & b": [{"nll": 1.0}]}, {"nll": report_table.Column("NLL", 1)}
    )
    sections = [
        report_page.Section("Text", ["One < two."]),
        report_page.Section(
            "More & <more>",
            [table, report_page.Figure("plot", "A plot of a < b.", figure)],
        ),
    ]
    report_page.write(tmp_path, "report", "A page & more", sections)
    return tmp_path


def test_markdown_holds_all_parts_in_order(written):
    text = (written / "report.md").read_text()
    parts = [
        "# A page & more", "## Text", "One < two.", "## More & <more>",
        "| a & b | 1.0", "![plot](plot.png)", "A plot of a < b.",
    ]  # fmt: skip
    assert [text.index(part) for part in parts] == sorted(
        map(text.index, parts)
    )


def test_html_is_well_formed_and_needs_no_other_file(written):
    text = (written / "report.html").read_text()
    body = text[text.index("<body>") :].removesuffix("</html>\n")
    root = ElementTree.fromstring(re.sub(r"(<img [^>]*)>", r"\1/>", body))
    assert root.find("h1").text == "A page & more"
    assert [h.text for h in root.iter("h2")] == ["Text", "More & <more>"]
    assert root.find("p").text == "One < two."
    assert next(root.iter("figcaption")).text == "A plot of a < b."
    image = next(root.iter("img"))
    assert image.get("alt") == "plot"
    kind, encoded = image.get("src").split(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(encoded) == (written / "plot.png").read_bytes()


def test_the_title_of_the_window_is_that_of_the_page(written):
    text = (written / "report.html").read_text()
    assert "<title>A page &amp; more</title>" in text


def test_the_folder_holds_nothing_else(written):
    names = {path.name for path in written.iterdir()}
    assert names == {"report.md", "report.html", "plot.png"}
