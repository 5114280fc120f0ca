"""Files of named arrays with a manifest, never seen half-written.

A file is a zip archive: `manifest.json`, `arrays/NAME.npy` for each array, and
perhaps `model.keras`, none of them compressed. The manifest holds the format,
the kind of the contents, a description, the shape and dtype of each array, and
the CRC-32 of each entry, which a zip archive computes anyway as it is written
and read.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import uuid
import zipfile

import numpy as np

FORMAT = 1
_MANIFEST, _ARRAYS, _MODEL = "manifest.json", "arrays/", "model.keras"
# Bytes that are written and read at a time: they stay in the cache.
_CHUNK = 2**18


def write(path, kind, description, arrays, model=None):
    """Replaces a file, so that an interruption leaves the old or the new one.

    `kind` names what it holds, `description` is a dict that JSON can hold,
    `arrays` a dict of arrays, and `model` the bytes of a `.keras` file or
    `None`.
    """
    path = pathlib.Path(path)
    arrays = {name: np.asarray(value) for name, value in arrays.items()}
    # Not `mkstemp`, whose files others may not read.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
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
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def read(path):
    """Returns what `write` wrote: the manifest, the arrays, and `model`."""
    path = pathlib.Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
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
    except (
        OSError,
        EOFError,
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(f"'{path}' cannot be read: {error}") from error


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
    """Returns what `pack` packed, in order, from a dict of more arrays."""
    count = sum(name.startswith(f"{prefix}_") for name in arrays)
    return [arrays[f"{prefix}_{i}"] for i in range(count)]


def below(arrays, prefix):
    """Returns the arrays whose names start with a prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def _manifest(archive):
    if _MANIFEST not in archive.namelist():
        raise ValueError("it is not a file of tfp_refine")
    manifest = json.loads(archive.read(_MANIFEST))
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if found != FORMAT:
        raise ValueError(
            f"its format is {found!r}, and this version reads {FORMAT}"
        )
    return manifest


def _write_array(archive, name, value):
    """Writes an array, and returns its entry of the manifest."""
    if value.dtype.hasobject:
        raise ValueError(f"The array '{name}' holds objects, not numbers.")
    path, data = f"{_ARRAYS}{name}.npy", _bytes(value)
    header = {
        "shape": value.shape,
        "fortran_order": False,
        "descr": np.lib.format.dtype_to_descr(value.dtype),
    }
    with archive.open(path, "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for begin in range(0, len(data), _CHUNK):
            file.write(data[begin : begin + _CHUNK])
    return _entry(value.shape, value.dtype, archive.getinfo(path))


def _read_array(archive, name, entry):
    """Reads an array; the archive itself compares each CRC-32."""
    path = f"{_ARRAYS}{name}.npy"
    with archive.open(path) as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        if dtype.hasobject:
            raise ValueError(f"the array '{name}' is a pickle of objects")
        if _entry(shape, dtype, archive.getinfo(path)) != entry:
            raise ValueError(
                f"the array '{name}' is not the one that was saved"
            )
        value = np.empty(shape, dtype)
        data, begin = memoryview(_bytes(value)), 0
        while begin < len(data):
            count = file.readinto(data[begin : begin + _CHUNK])
            if not count:
                raise ValueError(f"the array '{name}' has been cut off")
            begin += count
    return value


def _entry(shape, dtype, info):
    return {"shape": list(shape), "dtype": dtype.str, "crc32": info.CRC}


def _bytes(value):
    """Returns the bytes of an array in C order, not copied if contiguous."""
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
