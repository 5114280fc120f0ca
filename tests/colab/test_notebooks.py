"""The notebooks, as their users run them, with fewer steps."""

import pathlib
import re

import jupytext
import nbclient
import nbformat
import pytest

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
# Only where the package is missing, as on Colab: install it.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("tfp_refine") is None:
    package = "tfp_refine[tf,tfds,plot]"
    source = "git+https://github.com/OWNER/NAME"
    subprocess.check_call(
        [sys.executable, "-m", "pip", "install", "-q", f"{package} @ {source}"]
    )"""
_SMOKE_MODE = 'FAST = os.environ.get("TFP_REFINE_FAST") == "1"'

_of_every_notebook = pytest.mark.parametrize(
    "source", _SOURCES, ids=lambda path: path.stem
)


@_of_every_notebook
def test_notebook_is_made_from_its_source(source):
    notebook = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    made = jupytext.read(source)
    assert [(c.cell_type, c.source) for c in notebook.cells] == [
        (c.cell_type, c.source) for c in made.cells
    ], f"run: jupytext --to ipynb {source.relative_to(_ROOT)}"
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_every_notebook_has_a_source():
    assert [path.stem for path in _SOURCES] == sorted(
        path.stem for path in (_ROOT / "colab").glob("*.ipynb")
    )


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
def test_notebook_has_a_smoke_mode_that_it_uses(source):
    code = jupytext.read(source).cells[2].source
    assert _SMOKE_MODE in code.splitlines()
    text = source.read_text(encoding="utf-8").replace(_SMOKE_MODE, "")
    assert re.search(r"\bif FAST\b", text)


@_of_every_notebook
def test_functions_that_the_notebook_calls_have_these_arguments(source):
    assert code_names.check_calls(source.read_text(encoding="utf-8")) > 0


@pytest.mark.slow
@_of_every_notebook
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_notebook_runs(source, monkeypatch, tmp_path):
    monkeypatch.setenv("TFP_REFINE_FAST", "1")
    monkeypatch.setenv("PYTHONPATH", str(_ROOT))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    notebook = jupytext.read(source)
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    figures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    assert figures
