"""The notebooks: their form, and that they reproduce their outputs."""

import base64
import importlib.util
import io
import math
import pathlib
import re

import jupytext
import nbformat
import numpy as np
import pytest
from PIL import Image

from tests.support import code_names

_ROOT = pathlib.Path(__file__).parents[2]
_SOURCES = sorted((_ROOT / "colab").glob("*.py"))
# Stated once, in setup.py.
_REPOSITORY = re.search(
    r'URL = "https://github\.com/([\w-]+/[\w-]+)"',
    (_ROOT / "setup.py").read_text(encoding="utf-8"),
).group(1)
_BADGE = (
    "[![Open In Colab](https://colab.research.google.com/assets/"
    "colab-badge.svg)](https://colab.research.google.com/github/"
    "{repository}/blob/main/colab/{name}.ipynb)"
)
_LICENSE = (
    "By the tfp_refine authors; [Apache License 2.0]"
    "(https://www.apache.org/licenses/LICENSE-2.0)."
)
_INSTALL = """\
# Installs the package if it is missing, as on Colab, and those of its
# requirements that are missing or too old.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("tfp_refine") is None:
    package = "tfp_refine[tf,plot]"
    source = "git+https://github.com/OWNER/NAME"
    subprocess.check_call(
        [sys.executable, "-m", "pip", "install", "-q", f"{package} @ {source}"]
    )"""
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?")
_MAX_BYTES = 300_000

_of_every_notebook = pytest.mark.parametrize(
    "source", _SOURCES, ids=lambda path: path.stem
)


def _script():
    """Imports `docs/notebooks.py`, which is in no package."""
    spec = importlib.util.spec_from_file_location(
        "notebooks", _ROOT / "docs" / "notebooks.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _stored(source):
    return nbformat.read(source.with_suffix(".ipynb"), as_version=4)


def _figures(cell):
    return [
        output.data["image/png"]
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]


def _text(cell):
    """Returns the text that a cell shows."""
    return "".join(
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in cell.get("outputs", ())
        if "image/png" not in output.get("data", {})
    )


def differences(old, new):
    """Lists how the text of a cell differs from the stored one.

    Numbers may differ by 10%, or by 2 in the last of their digits: processors
    round differently, and training amplifies that.
    """
    if _NUMBER.sub("#", old).split() != _NUMBER.sub("#", new).split():
        return [f"{old!r} became {new!r}"]
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    return [
        f"{a} became {b}"
        for a, b in pairs
        if not math.isclose(
            float(a),
            float(b),
            rel_tol=0.1,
            abs_tol=2.01 * 10.0 ** -len(a.partition(".")[2]),
        )
    ]


def test_numbers_differ_where_they_are_not_close():
    old = "NLL 0.110  accuracy 0.972, of 360"
    assert differences(old, "NLL 0.112   accuracy 0.97, of 360") == []
    assert differences(old, old.replace("0.110", "0.150")) == [
        "0.110 became 0.150"
    ]
    assert len(differences(old, old.replace("NLL", "ECE"))) == 1
    assert len(differences(old, old + " 1")) == 1


@_of_every_notebook
def test_notebook_is_made_from_its_source(source):
    command = f"run: python docs/notebooks.py --names={source.stem}"
    made = _script().made(source.stem)
    assert [(c.cell_type, c.source, c.id) for c in _stored(source).cells] == [
        (c.cell_type, c.source, c.id) for c in made.cells
    ], command


@_of_every_notebook
def test_notebook_is_stored_with_its_outputs(source):
    notebook = _stored(source)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [c.execution_count for c in code] == [*range(1, len(code) + 1)]
    outputs = [output for cell in code for output in cell.outputs]
    assert {o.output_type for o in outputs} <= {
        "stream",
        "execute_result",
        "display_data",
    }
    assert {o.name for o in outputs if o.output_type == "stream"} == {"stdout"}
    text = "".join(map(_text, code))
    for unwanted in ("\r", "\b", "\x1b", "━", "ms/step", "Warning", " at 0x"):
        assert unwanted not in text
    assert sum(len(_figures(cell)) for cell in code) >= 2
    assert source.with_suffix(".ipynb").stat().st_size < _MAX_BYTES


@_of_every_notebook
def test_figures_of_a_notebook_are_not_blank(source):
    for cell in _stored(source).cells:
        for png in _figures(cell):
            with Image.open(io.BytesIO(base64.b64decode(png))) as image:
                assert max(image.size) <= 1700
                assert np.asarray(image.convert("L")).std() > 5


def test_the_course_is_every_notebook():
    course = _script().course()
    for paths in (_SOURCES, (_ROOT / "colab").glob("*.ipynb")):
        assert sorted(course) == sorted(path.stem for path in paths)


@_of_every_notebook
def test_notebook_begins_with_title_badge_and_license(source):
    first = jupytext.read(source).cells[0]
    assert first.cell_type == "markdown"
    lines = first.source.splitlines()
    assert re.fullmatch("# [^#].+", lines[0])
    assert lines[2] == _BADGE.format(repository=_REPOSITORY, name=source.stem)
    assert lines[-1] == _LICENSE


@_of_every_notebook
def test_notebook_installs_only_what_is_missing(source):
    cells = jupytext.read(source).cells
    assert cells[1].source == _INSTALL.replace("OWNER/NAME", _REPOSITORY)
    others = "".join(cell.source for cell in cells[2:])
    assert "pip" not in re.findall(r"\w+", others)


@_of_every_notebook
def test_notebook_has_no_cells_for_tests(source):
    text = source.read_text(encoding="utf-8")
    assert not re.search(r"\bassert|\btesting\b|_FAST\b|\bFAST\b", text)


@_of_every_notebook
def test_notebook_ends_with_what_to_try_next(source):
    last = jupytext.read(source).cells[-1]
    assert last.cell_type == "markdown"
    _, heading, text = last.source.partition("## What to try next\n")
    assert heading
    course = _script().course()
    following = course[(course.index(source.stem) + 1) % len(course)]
    links = re.findall(
        rf"\]\(https://github\.com/{_REPOSITORY}/blob/main/([^)]+)\)", text
    )
    assert len(links) == text.count("](")
    assert f"colab/{following}.ipynb" in links
    assert any(link.startswith("docs/") for link in links)
    for link in links:
        assert (_ROOT / link).is_file(), link


def test_the_first_notebook_has_the_quick_start_of_the_readme():
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    code = readme.partition("## Quick start")[2].partition("```python\n")[2]
    code = code.partition("```")[0].strip()
    notebook = jupytext.read(_ROOT / "colab" / f"{_script().course()[0]}.py")
    (cell,) = (c for c in notebook.cells if "import keras\n" in c.source)
    assert code.split() == cell.source.split()[-len(code.split()) :]


@_of_every_notebook
def test_functions_that_the_notebook_calls_have_these_arguments(source):
    assert code_names.check_calls(source.read_text(encoding="utf-8")) > 0


@pytest.mark.slow
@_of_every_notebook
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_notebook_gives_what_it_shows(source):
    notebook = _script().executed(source.stem)
    for old, new in zip(_stored(source).cells, notebook.cells, strict=True):
        assert differences(_text(old), _text(new)) == [], old.source
        assert len(_figures(new)) == len(_figures(old)), old.source
