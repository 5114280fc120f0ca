"""Tests of `python -m tfp_refine`."""

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


def test_the_package_tells_what_is_installed(capfd):
    runpy.run_module("tfp_refine", run_name="__main__")
    written = capfd.readouterr()
    assert not written.err
    check(written.out)


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
