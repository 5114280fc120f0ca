"""The most memory that a process uses at a time."""

import pathlib

import numpy as np
import pytest

from tfp_refine.experiments import peak_memory

is_linux = pathlib.Path("/proc/self/clear_refs").exists()


@pytest.mark.skipif(not is_linux, reason="Only Linux tells.")
def test_a_peak_is_seen_after_it_is_over():
    with peak_memory.Peak() as peak:
        block = np.ones(2**25)  # 256 MiB
        del block
    assert 200.0 < peak.mebibytes < 400.0
    with peak_memory.Peak() as peak:
        pass
    assert peak.mebibytes < 50.0  # not that of before


@pytest.mark.parametrize("names", [("_STATUS", "_RESET"), ("_RESET",)])
def test_where_it_is_not_told_it_is_none(monkeypatch, names):
    for name in names:
        monkeypatch.setattr(peak_memory, name, pathlib.Path("/nowhere/file"))
    with peak_memory.Peak() as peak:
        pass
    assert peak.mebibytes is None
