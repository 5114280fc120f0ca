"""The benchmark for GPUs runs without one."""

import pathlib
import runpy
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "benchmarks"


def _run(monkeypatch, *flags):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", ["gpu.py", *flags])
    runpy.run_path(str(FOLDER / "gpu.py"), run_name="__main__")


def test_help_explains(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        _run(monkeypatch, "--help")
    assert "Without a GPU it takes small sizes" in capsys.readouterr().out


@pytest.mark.slow
def test_it_prints_a_row_for_every_measurement(monkeypatch, capsys):
    networks = ("--networks", "MLP", "LeNet-5")
    _run(monkeypatch, *networks, "--members", "1", "2", "--steps=1")
    text = capsys.readouterr().out
    for row in (
        "deterministic",
        "Reparameterization",
        "LocalReparameterization",
        "Flipout",
        "M = 1, map",
        "M = 1, vmap",
        "M = 2, map",
        "M = 2, vmap",
        "M = 2, batched",
    ):
        for end in (" ", ", XLA "):
            assert text.count(f"  {row}{end}") == 2
    assert text.count('M = 2: "auto" is "') == 2
