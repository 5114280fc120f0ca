"""The notebooks, as their users run them, with fewer steps."""

import pathlib

import jupytext
import nbclient
import nbformat
import pytest

_ROOT = pathlib.Path(__file__).parents[2]
_SOURCES = sorted((_ROOT / "colab").glob("*.py"))


@pytest.mark.parametrize("source", _SOURCES, ids=lambda path: path.stem)
def test_notebook_is_made_from_its_source(source):
    notebook = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    made = jupytext.read(source)
    assert [(c.cell_type, c.source) for c in notebook.cells] == [
        (c.cell_type, c.source) for c in made.cells
    ], f"run: jupytext --to ipynb {source.relative_to(_ROOT)}"
    assert not any(cell.get("outputs") for cell in notebook.cells)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            path,
            marks=() if path.stem == "quickstart" else pytest.mark.slow,
            id=path.stem,
        )
        for path in _SOURCES
    ],
)
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
