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


@pytest.mark.slow
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


SMALL = {"a": np.arange(3), "b": np.array([["x"]])}


@pytest.mark.slow
def test_a_file_that_is_cut_anywhere_is_named(path):
    files.write(path, "Kind", {}, SMALL, b"model")
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=f"'{path}' cannot be read"):
            files.read(path)


@pytest.mark.slow
def test_a_flipped_bit_is_found_anywhere(path):
    files.write(path, "Kind", {"seed": 1}, SMALL, b"model")
    whole, expected = path.read_bytes(), files.read(path)
    messages, harmless = [], 0
    for position in range(0, 8 * len(whole), 3):
        damaged = bytearray(whole)
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            found = files.read(path)
        except ValueError as error:
            messages.append(str(error))
            continue
        # Of dates, versions and attributes of entries.
        harmless += 1
        assert repr(found) == repr(expected)
    assert all(f"'{path}' cannot be read" in one for one in messages)
    assert harmless < 0.5 * len(messages)


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
        (lambda e: e.pop("arrays/a.npy"), "not those that were saved"),
        (lambda e: e.update({"arrays/x.npy": b""}), "not those that were"),
        (_swapped, "the array 'a' is not the one that was saved"),
        (_flipped, "the array 'a' is not the one that was saved"),
        (
            lambda e: e.update({"model.keras": b"other"}),
            "model.keras is not the file that was saved",
        ),
        (_manifest(kind=1), "its kind is 1"),
        (_manifest(description=[]), "its description is []"),
        (_manifest(arrays=None), "its arrays is None"),
        (_manifest(model="x"), "its model is 'x'"),
        (_manifest(arrays={"a": 1}, model=None), "not those that were saved"),
        (lambda e: e.update({"manifest.json": "[" * 10**5}), "recursion"),
    ],
)
def test_damaged_contents_are_refused(path, change, message):
    files.write(path, "Kind", {}, ARRAYS, b"model")
    _rewritten(path, change)
    with pytest.raises(ValueError, match=f"'{path}' cannot be read: .*") as e:
        files.read(path)
    assert message in str(e.value)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        # They could hold anything, and code that runs.
        ({"dtype": "|O"}, "the array 'a' is a pickle of objects"),
        ({"dtype": "<f4"}, "the array 'a' is not the one that was saved"),
        ({"dtype": "<U0"}, "the array 'a' is not the one that was saved"),
        ({"dtype": "nothing"}, "nothing"),
        ({"dtype": 1}, "1"),
        # None of it is allocated.
        ({"shape": [10**15]}, "the array 'a' is not the one that was saved"),
        ({"shape": [-3]}, "the array 'a' is not the one that was saved"),
        ({"shape": ["3"]}, "cannot be read"),
        ({"shape": 3}, "cannot be read"),
        ({"crc32": None}, "the array 'a' is not the one that was saved"),
    ],
)
def test_damaged_descriptions_of_arrays_are_refused(path, entry, message):
    def change(entries):
        manifest = json.loads(entries["manifest.json"])
        manifest["arrays"]["a"].update(entry)
        entries["manifest.json"] = json.dumps(manifest)

    files.write(path, "Kind", {}, {"a": np.arange(3)})
    _rewritten(path, change)
    with pytest.raises(ValueError, match=f"'{path}' cannot be read: .*") as e:
        files.read(path)
    assert message in str(e.value)


def test_compressed_entries_are_refused(path):
    with memory.Peak() as writing:
        files.write(path, "Kind", {}, {"a": np.zeros(2**23, np.float32)})
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, value in entries.items():
                archive.writestr(name, value)
        with (
            memory.Peak() as reading,
            pytest.raises(ValueError, match="its entries are compressed"),
        ):
            files.read(path)
        assert writing.mebibytes is None or reading.mebibytes < 16.0  # of 32


def test_entries_that_share_their_bytes_are_refused(path):
    files.write(path, "Kind", {}, {"a": np.zeros(1000)})
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("arrays/a.npy")
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(3):
            copy = zipfile.ZipInfo(f"arrays/{number}.npy")
            for name in ("CRC", "compress_size", "file_size", "header_offset"):
                setattr(copy, name, getattr(info, name))
            archive.filelist.append(copy)
            archive.NameToInfo[copy.filename] = copy
        archive._didModify = True
    assert path.stat().st_size < len(whole) + 1000
    with pytest.raises(ValueError, match="are larger than the file"):
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
