"""Pages of reports."""

import base64
import importlib.util
import re
import types
from xml.etree import ElementTree

import pytest
from matplotlib import figure as figure_lib
from matplotlib import pyplot

from tfp_refine import version
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import tables


@pytest.fixture
def written(tmp_path):
    figure = figure_lib.Figure(figsize=(1, 1))
    sections = [
        page.Section("Text", ["One < two: raise --the-flag."]),
        page.Section(
            "More & <more>",
            [
                tables.Table(["", "NLL"], [["a & b", 1.0]]),
                page.Figure("plot", "A plot of a < b.", figure),
            ],
        ),
    ]
    header = {"Command": "uci --a='<b>'", "Date": "today"}
    page.write(tmp_path, "A page & more", sections, header)
    return tmp_path


def test_markdown_holds_all_parts_in_order(written):
    text = (written / "report.md").read_text()
    parts = [
        "# A page & more", "- Command: `uci --a='<b>'`", "- Date: `today`",
        "## Text", "One < two:", "## More & <more>", "| a & b | 1.0",
        "![plot](plot.png)", "A plot of a < b.",
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
    words = root.find("p")
    assert "".join(words.itertext()) == "One < two: raise --the-flag."
    # In a span lines do not break, not even after a hyphen.
    assert [s.text for s in words] == ["<", "--the-flag."]
    assert ["".join(d.itertext()) for d in root.iter("dd")] == [
        "uci --a='<b>'", "today"
    ]  # fmt: skip
    caption = next(root.iter("figcaption"))
    assert "".join(caption.itertext()) == "A plot of a < b."
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


def test_the_header_holds_a_command_for_a_shell():
    config = types.SimpleNamespace(
        flags=lambda: [
            "--dataset=a b",
            "--progress=false",
            "--systems=x(y=1),z",
        ]
    )
    header = page.header("uci", config)
    assert header["Command"] == (
        "python -m tfp_refine.experiments.uci '--dataset=a b' --progress=false "
        "'--systems=x(y=1),z'"
    )
    assert header["Version"] == f"tfp_refine {version.__version__}"
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", header["Date"])


def test_the_terminal_shows_all_but_figures(capsys):
    table = tables.Table(["", "NLL"], [["map", 1.0]])
    figure = page.Figure("plot", "A plot.", None)
    page.show([page.Section("More", ["Some words. " * 20, table, figure])])
    text = capsys.readouterr().out
    assert text.startswith("More\n\nSome words. ")
    assert max(map(len, text.splitlines())) <= 100
    assert table.to_text() in text
    assert "plot" not in text


def test_a_page_is_shown_written_and_named(tmp_path, capsys):
    page.publish(tmp_path, "Title", [page.Section("One", ["Words."])], {})
    shown = f"One\n\nWords.\n\nReport: {tmp_path / 'report.html'}\n\n"
    assert capsys.readouterr().out == shown
    assert "Words." in (tmp_path / "report.md").read_text()


def test_without_matplotlib_the_log_says_how_to_get_it(monkeypatch, caplog):
    assert page.can_plot()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with caplog.at_level("WARNING", "absl"):
        assert page.figure("name", "caption", lambda: 1 / 0) == []
    assert "pip install 'tfp_refine[plot]'" in caplog.text


def test_figures_are_left_out_where_there_is_nothing_to_draw():
    assert page.figure("name", "caption", lambda: None) == []


def test_a_folder_that_is_missing_is_named(tmp_path):
    figure = page.Figure("a", "A plot.", figure_lib.Figure((1, 1)))
    sections = [page.Section("One", [figure])]
    with pytest.raises(OSError, match=r"Cannot write '.*nowhere/a\.png'"):
        page.write(tmp_path / "nowhere", "Title", sections, {})


def test_axes_stand_for_their_figure_which_is_closed():
    for draw in (
        pyplot.figure,
        lambda: pyplot.subplots()[1],
        lambda: pyplot.subplots(2, 2)[1],
    ):
        png = page.Figure("a", "A plot.", draw()).png()
        assert png.startswith(b"\x89PNG")
        assert not pyplot.get_fignums()
