import importlib.util

import pytest
from matplotlib import figure as figure_lib
from matplotlib import pyplot

from tfp_refine.experiments.harness import figures


def test_figures_are_saved_as_png_files(tmp_path):
    drawn = {"a": figure_lib.Figure((1, 1)), "b": figure_lib.Figure((1, 1))}
    assert figures.can_plot()
    paths = figures.save(tmp_path, drawn)
    assert paths == sorted(tmp_path.iterdir()) == [
        tmp_path / "a.png", tmp_path / "b.png"
    ]  # fmt: skip
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in paths)


def test_without_matplotlib_the_log_says_how_to_get_it(monkeypatch, caplog):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with caplog.at_level("WARNING", "absl"):
        can_plot = figures.can_plot()
    assert not can_plot
    assert "pip install 'tfp_refine[plot]'" in caplog.text


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(OSError, match=r"Cannot write '.*nowhere/a\.png'"):
        figures.save(tmp_path / "nowhere", {"a": figure_lib.Figure((1, 1))})


def test_axes_stand_for_their_figure_which_is_closed():
    for draw in (
        pyplot.figure,
        lambda: pyplot.subplots()[1],
        lambda: pyplot.subplots(2, 2)[1],
    ):
        assert figures.png(draw(), 20).startswith(b"\x89PNG")
        assert not pyplot.get_fignums()
