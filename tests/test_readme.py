"""The README is true: its Python runs, its names and files exist."""

import re
import subprocess
import sys

import pytest

from tests.support import code_names
from tests.support import markdown_code
from tfp_refine import refine

_README = markdown_code.ROOT / "README.md"
_TEXT = _README.read_text(encoding="utf-8")


def quick_start():
    return markdown_code.python_blocks(_README)[0]


@pytest.mark.slow
def test_the_quick_start_runs_as_pasted_and_shows_a_gain(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", quick_start()],
        cwd=tmp_path,
        env=markdown_code.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, after = map(float, done.stdout.split())
    said = re.search(r"about (\d\.\d+)\s+and (\d\.\d+)", _TEXT).groups()
    assert (before, after) == pytest.approx(tuple(map(float, said)), abs=0.02)


def test_python_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Less work where the blocks leave it to the defaults.
    monkeypatch.setitem(refine.__kwdefaults__, "num_members", 2)
    monkeypatch.setitem(refine.__kwdefaults__, "steps", 2)
    names = {}
    for block in markdown_code.python_blocks(_README):
        exec(markdown_code.shortened(block), names)


def test_the_readme_is_short():
    assert len(_TEXT.split()) < 900
    lines = [line for line in quick_start().splitlines() if line.strip()]
    assert len(lines) <= 15


def test_numbers_of_the_readme_are_those_of_the_results():
    results = (markdown_code.ROOT / "docs" / "results.md").read_text("utf-8")
    section = results.partition("## Systems side by side")[2]
    results = section.partition("\n## ")[0]
    shown = [row for row in rows(_TEXT) if any("±" in c for c in row)]
    assert len(shown) >= 8
    for name, *cells in shown:
        (measured,) = (row[1:] for row in rows(results) if row[0] == name)
        for cell in filter(None, cells):
            assert any(is_rounded(cell, exact) for exact in measured), name


def rows(text):
    """Returns the cells of the rows of tables, without bold."""
    return [
        [cell.strip(" *") for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]


def is_rounded(short, exact):
    """Returns whether `1.3 ± 0.1` or `1.3` is `1.26 ± 0.14`, rounded."""
    return all(
        f"{float(two):.{len(one.partition('.')[2])}f}" == one
        for one, two in zip(
            short.split(" ± "), exact.split(" ± "), strict=False
        )
        if two
    ) and bool(exact)


def test_files_that_the_readme_links_exist():
    targets = re.findall(r"\]\(([^)#]+)", _TEXT)
    files = [target for target in targets if "://" not in target]
    assert len(files) > 15
    for name in files:
        assert (markdown_code.ROOT / name).exists(), name


def test_functions_that_the_python_calls_have_these_arguments():
    blocks = markdown_code.python_blocks(_README)
    assert code_names.check_calls("\n".join(blocks)) > 10


def test_names_in_tables_exist():
    import tfp_refine as tfr

    for path in re.findall(r"`tfr\.([A-Za-z0-9_.]+)", _TEXT):
        target = tfr
        for part in path.split("."):
            target = getattr(target, part)


def test_commands_of_the_readme_exist():
    makefile = (markdown_code.ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([a-z-]+)`", _TEXT):
        assert f"\n{target}:" in makefile
