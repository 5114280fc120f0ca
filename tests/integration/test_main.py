"""Tests of `python -m tfp_refine`."""

import importlib.metadata
import subprocess
import sys

from tfp_refine import version


def test_the_package_tells_what_is_installed_and_nothing_else():
    found = subprocess.run(
        [sys.executable, "-m", "tfp_refine"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not found.stderr
    lines = found.stdout.splitlines()
    assert lines[0] == f"tfp_refine {version.__version__}"
    assert f"  keras {importlib.metadata.version('keras')}" in lines
    assert any(line.startswith("  CPU: ") for line in lines)
    assert "  python -m tfp_refine.experiments.compare --list" in lines
