"""Files of named arrays with a manifest, never seen half-written.

A file is a zip archive: `manifest.json`, `arrays/NAME.npy` for each array, and
perhaps `model.keras`, none of them compressed. The manifest holds the format,
the kind of the contents, a description, the shape and dtype of each array, and
the CRC-32 of each entry, which a zip archive computes anyway as it is written
and read.
"""

import contextlib
import hashlib
import io
import json
import math
import os
import zipfile

import numpy as np

from tfp_refine import _storage
from tfp_refine.functional import large

FORMAT = 1
_MANIFEST, _ARRAYS, _MODEL = "manifest.json", "arrays/", "model.keras"
_KINDS = {
    "kind": str,
    "description": dict,
    "arrays": dict,
    "model": int | None,
}
# Bytes that are written and read at a time: they stay in the cache.
_CHUNK = 2**18


def write(path, kind, description, arrays, model=None):
    """Replaces a file, so that an interruption leaves the old or the new one.

    `kind` names its contents, `description` is a dict that JSON can hold,
    `arrays` a dict of arrays, and `model` the bytes of a `.keras` file or
    `None`.
    """
    arrays = {name: np.asarray(value) for name, value in arrays.items()}
    with (
        _storage.replacing(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        entries = {
            name: _write_array(archive, name, value)
            for name, value in arrays.items()
        }
        crc32 = None
        if model is not None:
            archive.writestr(_MODEL, model)
            crc32 = archive.getinfo(_MODEL).CRC
        manifest = {
            "format": FORMAT,
            "kind": kind,
            "description": description,
            "arrays": entries,
            "model": crc32,
        }
        archive.writestr(_MANIFEST, json.dumps(manifest))


def read(path):
    """Reads a file of `write`: the manifest, the arrays, and `model`.

    Raises a `ValueError` that names the file if it is not as it was written.
    Nothing larger than the file is allocated, and no code in it is run.
    """
    with reading(path), zipfile.ZipFile(path) as archive:
        _check_stored(archive, os.path.getsize(path))
        manifest = _manifest(archive)
        arrays = {
            name: _read_array(archive, name, entry)
            for name, entry in manifest["arrays"].items()
        }
        model = None
        if manifest["model"] is not None:
            model = archive.read(_MODEL)
            if manifest["model"] != archive.getinfo(_MODEL).CRC:
                raise ValueError(f"{_MODEL} is not the file that was saved")
        return manifest, arrays, model


@contextlib.contextmanager
def reading(path):
    """Makes every error of reading a file a `ValueError` that names it."""
    try:
        yield
    except Exception as error:  # of any kind, as libraries answer damage
        if isinstance(error, ValueError) and f"'{path}'" in str(error):
            raise
        reason = f"{error}" or type(error).__name__
        raise ValueError(f"'{path}' cannot be read: {reason}") from error


def digest(arrays):
    """Returns a short text for an array, or a list of arrays."""
    hashed = hashlib.sha256()
    for value in arrays if isinstance(arrays, list | tuple) else [arrays]:
        value = np.asarray(value)
        own = hashlib.sha256(f"{value.shape}{value.dtype.str}".encode())
        own.update(_bytes(value))
        hashed.update(own.digest())
    return hashed.hexdigest()[:16]


def pack(leaves, prefix="fixed"):
    """Returns a list of arrays, such as fixed weights, as a dict of them."""
    return {f"{prefix}_{i}": np.asarray(v) for i, v in enumerate(leaves)}


def unpack(arrays, prefix="fixed"):
    """Returns the arrays of `pack`, in order, from a dict with others."""
    count = sum(name.startswith(f"{prefix}_") for name in arrays)
    return [arrays[f"{prefix}_{i}"] for i in range(count)]


def below(arrays, prefix):
    """Returns the arrays whose names start with a prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def _check_stored(archive, size):
    """Refuses entries that are larger in memory than in a file of a size."""
    entries = archive.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("its entries are compressed")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError("its entries are larger than the file")


def _manifest(archive):
    if _MANIFEST not in archive.namelist():
        raise ValueError("it is not a file of tfp_refine")
    manifest = json.loads(archive.read(_MANIFEST))
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if found != FORMAT:
        raise ValueError(
            f"its format is {found!r}, and this version reads {FORMAT}"
        )
    for name, kind in _KINDS.items():
        if not isinstance(manifest.get(name), kind):
            raise ValueError(f"its {name} is {manifest.get(name)!r}")
    saved = [_MANIFEST, *(_path(name) for name in manifest["arrays"])]
    saved += [_MODEL] * (manifest["model"] is not None)
    if sorted(archive.namelist()) != sorted(saved):
        raise ValueError("its entries are not those that were saved")
    return manifest


def _path(name):
    return f"{_ARRAYS}{name}.npy"


def _header(shape, dtype):
    """Returns the bytes before those of an array in C order."""
    stream = io.BytesIO()
    header = {
        "shape": shape,
        "fortran_order": False,
        "descr": np.lib.format.dtype_to_descr(dtype),
    }
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


def _write_array(archive, name, value):
    """Writes an array, and returns its entry of the manifest."""
    if value.dtype.hasobject:
        raise ValueError(f"The array '{name}' holds objects, not numbers.")
    path, data = _path(name), _bytes(value)
    with archive.open(path, "w", force_zip64=True) as file:
        file.write(_header(value.shape, value.dtype))
        for begin in range(0, len(data), _CHUNK):
            file.write(data[begin : begin + _CHUNK])
    return {
        "shape": list(value.shape),
        "dtype": value.dtype.str,
        "crc32": archive.getinfo(path).CRC,
    }


def _read_array(archive, name, entry):
    """Reads an array; the archive itself compares each CRC-32."""
    info = archive.getinfo(_path(name))
    shape, dtype = tuple(entry["shape"]), np.dtype(entry["dtype"])
    if dtype.hasobject:
        raise ValueError(f"the array '{name}' is a pickle of objects")
    header = _header(shape, dtype)
    size = len(header) + math.prod(shape) * dtype.itemsize
    with archive.open(info) as file:
        if (
            (info.file_size, info.CRC) != (size, entry["crc32"])
            or not dtype.itemsize
            or file.read(len(header)) != header
        ):
            raise ValueError(
                f"the array '{name}' is not the one that was saved"
            )
        value = large.zeros(shape, dtype)
        data, begin = memoryview(_bytes(value)), 0
        while begin < len(data):
            count = file.readinto(data[begin : begin + _CHUNK])
            if not count:
                raise ValueError(f"the array '{name}' has been cut off")
            begin += count
    return value


def _bytes(value):
    """Returns the bytes of an array in C order, not copied if contiguous."""
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
