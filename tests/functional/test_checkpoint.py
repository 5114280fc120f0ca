import numpy as np
import pytest

from tfp_refine.functional import checkpoint as checkpoint_lib

_ARRAYS = {"a": np.arange(3), "b": np.array([[True]])}


def test_arrays_come_back(tmp_path):
    checkpoint = checkpoint_lib.Checkpoint(
        tmp_path / "x", "refinement", {"seed": 1}
    )
    assert checkpoint.load() is None
    checkpoint.save(_ARRAYS)
    loaded = checkpoint_lib.Checkpoint(
        tmp_path / "x", "refinement", {"seed": 1}
    ).load()
    assert loaded.keys() == _ARRAYS.keys()
    for name, value in _ARRAYS.items():
        np.testing.assert_array_equal(loaded[name], value)


def test_failed_save_leaves_the_old_file(tmp_path):
    checkpoint = checkpoint_lib.Checkpoint(tmp_path, "refinement", {})
    checkpoint.save(_ARRAYS)

    class Unsavable:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("cut off")

    with pytest.raises(RuntimeError, match="cut off"):
        checkpoint.save({"a": np.ones(5), "z": Unsavable()})
    np.testing.assert_array_equal(checkpoint.load()["a"], np.arange(3))


@pytest.mark.parametrize("keep", [0, 10, 100])
def test_damaged_file_is_named(tmp_path, keep):
    checkpoint = checkpoint_lib.Checkpoint(tmp_path, "refinement", {})
    checkpoint.save(_ARRAYS)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ValueError, match=f"'{file}' cannot be read"):
        checkpoint.load()


def test_fingerprint_tells_values_shapes_and_dtypes_apart():
    variants = [
        np.zeros(4),
        np.ones(4),
        np.zeros((2, 2)),
        np.zeros(4, np.float32),
        np.zeros(8, np.float32),
    ]
    digests = {
        checkpoint_lib.fingerprint({}, {"x": variant})["x"]
        for variant in variants
    }
    assert len(digests) == len(variants)
