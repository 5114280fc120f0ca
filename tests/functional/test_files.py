import json
import zipfile
from concurrent import futures

import numpy as np
import pytest

from tfp_refine.experiments.harness import memory
from tfp_refine.functional import files

ARRAYS = {
    "a": np.arange(3),
    "b/c": np.array([[True]]),
    "half": np.ones((0, 2), np.float16),
    "text": np.array(["x", "yz"]),
    "scalar": np.array(2.5),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "large": np.arange(2**19, dtype=">i4"),  # more than is read at a time
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.posterior"


def test_contents_come_back(path):
    files.write(path, "Kind", {"seed": 1}, ARRAYS, b"model")
    manifest, arrays, model = files.read(path)
    assert manifest["kind"] == "Kind"
    assert manifest["description"] == {"seed": 1}
    assert manifest["format"] == files.FORMAT
    assert model == b"model"
    assert arrays.keys() == ARRAYS.keys()
    for name, value in ARRAYS.items():
        assert arrays[name].dtype == value.dtype
        np.testing.assert_array_equal(arrays[name], value)


def test_without_a_model_there_is_none(path):
    files.write(path, "Kind", {}, {})
    assert files.read(path)[1:] == ({}, None)


def test_a_file_is_read_by_other_tools(path):
    files.write(path, "Kind", {}, ARRAYS)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        with archive.open("arrays/a.npy") as file:
            np.testing.assert_array_equal(np.load(file), np.arange(3))
        crc32 = archive.getinfo("arrays/a.npy").CRC
    entry = manifest["arrays"]["a"]
    assert entry == {"shape": [3], "dtype": "<i8", "crc32": crc32}


class _Unsavable:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("cut off")


@pytest.mark.parametrize(
    "arrays", [{"a": _Unsavable()}, {"a": np.array([object()])}]
)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, arrays):
    files.write(path, "Kind", {}, ARRAYS)
    before = path.read_bytes()
    # Which fails before the file is opened, or when it is half-written.
    with pytest.raises((RuntimeError, ValueError)):
        files.write(path, "Kind", {}, {"first": np.ones(9), **arrays})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_several_may_write_a_file_at_once(path):
    def write(number):
        values = np.full(10000, number)
        files.write(path, "Kind", {"number": number}, {"a": values})
        return files.read(path)  # of any, but whole

    with futures.ThreadPoolExecutor(4) as pool:
        for manifest, arrays, _ in pool.map(write, range(40)):
            assert set(arrays["a"]) == {manifest["description"]["number"]}
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("keep", [0, 10, 100, 400])
def test_a_truncated_file_is_named(path, keep):
    files.write(path, "Kind", {}, ARRAYS)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=f"'{path}' cannot be read"):
        files.read(path)


def _rewritten(path, change):
    """Rewrites the entries of a file, a dict of bytes by name."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in entries.items():
            archive.writestr(name, value)


def _manifest(**changes):
    def change(entries):
        manifest = json.loads(entries["manifest.json"])
        entries["manifest.json"] = json.dumps({**manifest, **changes})

    return change


def test_arrays_are_written_and_read_without_copies(path):
    value = np.ones(2**24, np.float32)  # 64 MiB
    with memory.Peak() as writing:
        files.write(path, "Kind", {}, {"a": value})
    with memory.Peak() as reading:
        _, arrays, _ = files.read(path)
    np.testing.assert_array_equal(arrays["a"], value)
    if reading.mebibytes is None:
        pytest.skip("The system does not report it.")
    assert writing.mebibytes < 16.0
    assert reading.mebibytes < 80.0


def test_a_flipped_bit_is_found_anywhere(path, rng):
    files.write(path, "Kind", {"seed": 1}, ARRAYS, b"model")
    whole = path.read_bytes()
    expected, found = files.read(path), []
    # Sizes and names in the archive's own lists may not matter.
    for position in rng.integers(len(whole), size=500):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            manifest, arrays, model = files.read(path)
        except ValueError as error:
            found.append(str(error))
            continue
        assert (manifest, model) == (expected[0], expected[2])
        for name, value in ARRAYS.items():
            np.testing.assert_array_equal(arrays[name], value)
    assert all(f"'{path}' cannot be read" in message for message in found)


def _swapped(entries):
    entries["arrays/a.npy"] = entries["arrays/half.npy"]


def _flipped(entries):
    data = bytearray(entries["arrays/a.npy"])
    data[-1] ^= 1
    entries["arrays/a.npy"] = bytes(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_manifest(format=99), "its format is 99, and this version reads 1"),
        (_manifest(format=None), "its format is None"),
        (lambda e: e.update({"manifest.json": "[]"}), "its format is None"),
        (lambda e: e.update({"manifest.json": "{"}), "Expecting"),
        (lambda e: e.pop("manifest.json"), "it is not a file of tfp_refine"),
        (lambda e: e.pop("arrays/a.npy"), "no item named 'arrays/a.npy'"),
        (_swapped, "the array 'a' is not the one that was saved"),
        (_flipped, "the array 'a' is not the one that was saved"),
        (
            lambda e: e.update({"model.keras": b"other"}),
            "model.keras is not the file that was saved",
        ),
        (_manifest(arrays=None), "cannot be read"),
    ],
)
def test_damaged_contents_are_refused(path, change, message):
    files.write(path, "Kind", {}, ARRAYS, b"model")
    _rewritten(path, change)
    with pytest.raises(ValueError, match=f"'{path}' cannot be read: .*") as e:
        files.read(path)
    assert message in str(e.value)


def test_arrays_of_objects_are_not_read(path):
    # They could hold anything, and code that runs.
    files.write(path, "Kind", {}, {"a": np.zeros(1)})
    np.save(path.parent / "o.npy", np.array([{}]), allow_pickle=True)
    pickled = (path.parent / "o.npy").read_bytes()
    _rewritten(path, lambda e: e.update({"arrays/a.npy": pickled}))
    with pytest.raises(ValueError, match="cannot be read.*pickle"):
        files.read(path)


def test_a_missing_file_and_a_folder_are_named(path):
    for wrong in (path, path.parent):
        with pytest.raises(ValueError, match=f"'{wrong}' cannot be read"):
            files.read(wrong)


def test_digests_tell_values_shapes_and_dtypes_apart():
    variants = [
        np.zeros(4),
        np.ones(4),
        np.zeros((2, 2)),
        np.zeros(4, np.float32),
        np.zeros(8, np.float32),
        [np.zeros(4), np.zeros(4)],
        [],
    ]
    assert len({files.digest(variant) for variant in variants}) == len(variants)
    assert files.digest(np.zeros(4)) == files.digest([np.zeros(4)])
    transposed = np.arange(6.0).reshape(2, 3).T
    assert files.digest(transposed) == files.digest(transposed.copy())
