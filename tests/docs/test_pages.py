"""The pages of `docs/` are true: their Python runs, names exist."""

import re
import subprocess
import sys
import warnings

import pytest

import tfp_refine as tfr
from tests.support import code_names
from tests.support import markdown_code

PAGES = sorted((markdown_code.ROOT / "docs").rglob("*.md"))
# Whose trainings are examples, not measurements.
SHORTENED = (
    "collapsed_bounds",
    "index",
    "initialization",
    "laplace",
    "methods",
    "mnf",
    "pretrained",
    "refinement",
    "which_method",
)
# Whose only block runs as pasted, without the data of the others.
TASKS = "how_to"
# Run in a process of their own, as they show warnings.
SESSIONS = ("migration",)


def run(code, folder):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=markdown_code.environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem)
        for page in PAGES
        if page.stem not in SESSIONS and markdown_code.python_blocks(page)
    ],
)
def test_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    is_task = page.parent.name == TASKS
    names = {} if is_task else markdown_code.regression_names()
    for code in markdown_code.python_blocks(page):
        if is_task or page.stem in SHORTENED:
            code = markdown_code.shortened(code)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The chains have not mixed")
            exec(code, names)


def test_a_task_has_one_block():
    for page in PAGES:
        if page.parent.name == TASKS:
            assert len(markdown_code.python_blocks(page)) == 1, page.stem


@pytest.mark.parametrize(
    "stem",
    sorted(p.stem for p in (markdown_code.ROOT / "colab").glob("*.py")),
)
def test_the_course_on_the_first_page_has_every_notebook(stem):
    index = (markdown_code.ROOT / "docs" / "index.md").read_text("utf-8")
    assert f"(tutorials/{stem}.md)" in index


@pytest.mark.slow
@pytest.mark.parametrize("stem", SESSIONS)
def test_errors_that_a_page_quotes_are_what_comes(stem, tmp_path):
    page = markdown_code.ROOT / "docs" / f"{stem}.md"
    process = run(
        "import pathlib, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from tests.support import markdown_code\n"
        f"markdown_code.run_session(pathlib.Path({str(page)!r}))\n",
        tmp_path,
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
def test_scripts_of_the_pages_run(tmp_path):
    scripts = [
        block.code
        for page in PAGES
        for block in markdown_code.blocks(page)
        if re.fullmatch(r'python title=".+\.py"', block.info)
    ]
    assert scripts
    for script in scripts:
        process = run(script, tmp_path)
        assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_functions_that_a_page_calls_have_these_arguments(page):
    if page.stem not in SESSIONS:
        code_names.check_calls("\n".join(markdown_code.python_blocks(page)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_on_a_page_exist(page):
    for path in re.findall(r"`tfr\.([A-Za-z0-9_.]+)", page.read_text()):
        target = tfr
        for part in path.split("."):
            target = getattr(target, part)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_in_a_table_has_no_bars(page):
    # The site would show the backslash of `a \| b`: write it as a formula.
    assert not re.search(r"`[^`\n]*\\\|[^`\n]*`", page.read_text("utf-8"))


def test_the_script_of_the_figures_is_up_to_date():
    docs = markdown_code.ROOT / "docs"
    source = (docs / "figures.py").read_text("utf-8")
    assert code_names.check_calls(source) > 5
    names = re.search(r"^FIGURES = \{(.+)\}$", source, re.MULTILINE)[1]
    drawn = {f"{name}.png" for name in re.findall('"(\\w+)"', names)}
    assert drawn == {path.name for path in (docs / "images").iterdir()}
    shown = "".join(page.read_text("utf-8") for page in PAGES)
    assert drawn == set(re.findall(r"\(images/(\w+\.png)\)", shown))


def test_a_quotation_needs_all_its_parts_in_order():
    message = "ValueError: one\n  two three"
    assert markdown_code.has_parts(message, "ValueError: one two")
    assert markdown_code.has_parts(message, "ValueError: ... two three\n")
    assert not markdown_code.has_parts(message, "TypeError: one")
    assert not markdown_code.has_parts(message, "three ... one")


def test_a_session_notices_errors_that_are_missing_or_others(tmp_path):
    def session(code, quoted):
        path = tmp_path / "page.md"
        path.write_text(f"```python\n{code}\n```\n\n```text\n{quoted}\n```\n")
        markdown_code.run_session(path)

    session("int('a')", "ValueError: invalid literal")
    with pytest.raises(AssertionError, match="no error"):
        session("int('1')", "ValueError: invalid literal")
    with pytest.raises(AssertionError, match="is not in"):
        session("int('a')", "TypeError")
