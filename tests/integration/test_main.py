"""Tests of `python -m tfp_refine`."""

import importlib
import importlib.metadata
import runpy
import subprocess
import sys

import pytest

from tfp_refine import version


def check(text):
    lines = text.splitlines()
    assert lines[0] == f"tfp_refine {version.__version__}"
    assert f"  keras {importlib.metadata.version('keras')}" in lines
    assert any(line.startswith("  CPU: ") for line in lines)
    assert "  python -m tfp_refine.experiments.compare --list" in lines


def test_the_package_prints_the_installed_versions(capfd, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tfp_refine"])
    runpy.run_module("tfp_refine", run_name="__main__")
    written = capfd.readouterr()
    assert not written.err
    check(written.out)


@pytest.mark.parametrize("module", ["tfp_refine", "tfp_refine.experiments"])
def test_an_unknown_flag_is_refused_in_a_line(module, capfd, monkeypatch):
    monkeypatch.setattr(sys, "argv", [module, "--device=gpu"])
    with pytest.raises(SystemExit):
        runpy.run_module(module, run_name="__main__")
    written = capfd.readouterr()
    assert not written.out
    assert written.err.endswith("unrecognized arguments: --device=gpu\n")


def test_the_experiments_are_listed(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tfp_refine.experiments"])
    runpy.run_module("tfp_refine.experiments", run_name="__main__")
    _, *lines = capsys.readouterr().out.splitlines()
    commands, titles = lines[::2], lines[1::2]
    assert "  python -m tfp_refine.experiments.compare" in commands
    for command, title in zip(commands, titles, strict=True):
        module = importlib.import_module(command.split()[-1])
        assert title.strip() == module.__doc__.splitlines()[0]


@pytest.mark.slow
def test_importing_tensorflow_for_it_writes_nothing():
    found = subprocess.run(
        [sys.executable, "-m", "tfp_refine"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not found.stderr
    check(found.stdout)
