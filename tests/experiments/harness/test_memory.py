"""The most memory that a process uses at a time."""

import pathlib

import numpy as np
import pytest

from tfp_refine.experiments.harness import memory

is_linux = pathlib.Path("/proc/self/clear_refs").exists()


@pytest.mark.slow
@pytest.mark.skipif(not is_linux, reason="Only Linux reports it.")
def test_a_peak_is_seen_after_it_is_over():
    with memory.Peak() as peak:
        block = np.ones(2**25)  # 256 MiB
        del block
    assert 200.0 < peak.mebibytes < 400.0
    with memory.Peak() as peak:
        pass
    assert peak.mebibytes < 50.0  # not that of before


@pytest.mark.parametrize("files", [[], ["status", "clear_refs"]])
def test_where_it_is_not_reported_it_is_none(tmp_path, files):
    for name in files:
        (tmp_path / name).write_text("VmPeak: 1 kB\n")
    with memory.Peak(tmp_path) as peak:
        pass
    assert peak.mebibytes is None
