import mmap

import numpy as np
import pytest

from tests.support import linear_gaussian
from tfp_refine.functional import files
from tfp_refine.functional import large


def is_in_a_file(value):
    while value is not None and not isinstance(value, mmap.mmap):
        value = getattr(value, "base", None)
    return value is not None


@pytest.mark.parametrize("size", [0, 2**30])
def test_it_holds_what_is_written(monkeypatch, size):
    monkeypatch.setattr(large, "_IN_MEMORY", size)
    value = large.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(value, np.zeros((2, 3), np.float32))
    value[1] += [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(value, [[0, 0, 0], [1, 2, 3]])
    stacked = large.stack([value[1], value[0]])
    np.testing.assert_array_equal(stacked, value[::-1])
    for one in (value, stacked):
        assert one.dtype == np.float32
        assert is_in_a_file(one) == (size == 0)


def test_large_arrays_of_files_are_in_a_file_of_their_own(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(large, "_IN_MEMORY", 0)
    given = np.arange(6.0).reshape(2, 3)
    files.write(tmp_path / "file", "Kind", {}, {"a": given})
    _, arrays, _ = files.read(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"")
    np.testing.assert_array_equal(arrays["a"], given)
    assert is_in_a_file(arrays["a"])


@pytest.mark.slow
def test_members_larger_than_the_memory_are_refined_alike(
    monkeypatch, tmp_path
):
    case = linear_gaussian.LinearGaussian()
    found = []
    for size in (2**30, 0):
        monkeypatch.setattr(large, "_IN_MEMORY", size)
        ensemble = linear_gaussian.refine(
            case.model(),
            case.x,
            case.y,
            members_per_batch=1,
            checkpoint_dir=tmp_path / str(size),
        )
        assert is_in_a_file(ensemble.params) == (size == 0)
        assert is_in_a_file(ensemble.prior.loc) == (size == 0)
        found.append((ensemble.params, ensemble.sample(5, seed=1)))
    for expected, value in zip(*found, strict=True):
        np.testing.assert_array_equal(value, expected)
