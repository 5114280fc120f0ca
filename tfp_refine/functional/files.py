"""Files of named arrays with a manifest, never seen half-written.

A file is a zip archive: `manifest.json`, `arrays/NAME.npy` for each array, and
perhaps `model.keras`. The manifest holds the format, the kind of the contents,
a description, and the shape, dtype and SHA-256 digest of each array.
"""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import uuid
import zipfile

import numpy as np

FORMAT = 1
_MANIFEST, _ARRAYS, _MODEL = "manifest.json", "arrays/", "model.keras"


def write(path, kind, description, arrays, model=None):
    """Replaces a file, so that an interruption leaves the old or the new one.

    `kind` names what it holds, `description` is a dict that JSON can hold,
    `arrays` a dict of arrays, and `model` the bytes of a `.keras` file or
    `None`.
    """
    path = pathlib.Path(path)
    arrays = {name: np.asarray(value) for name, value in arrays.items()}
    manifest = {
        "format": FORMAT,
        "kind": kind,
        "description": description,
        "arrays": {name: _entry(value) for name, value in arrays.items()},
        "model": None if model is None else _sha256(model),
    }
    # Not `mkstemp`, whose files others may not read.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr(_MANIFEST, json.dumps(manifest))
                for name, value in arrays.items():
                    entry = archive.open(
                        f"{_ARRAYS}{name}.npy", "w", force_zip64=True
                    )
                    with entry:
                        np.lib.format.write_array(
                            entry, value, allow_pickle=False
                        )
                if model is not None:
                    archive.writestr(_MODEL, model)
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
            model = manifest["model"] and archive.read(_MODEL)
            if model and _sha256(model) != manifest["model"]:
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
        hashed.update(_entry(np.asarray(value))["sha256"].encode())
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


def _read_array(archive, name, entry):
    data = io.BytesIO(archive.read(f"{_ARRAYS}{name}.npy"))
    value = np.lib.format.read_array(data, allow_pickle=False)
    if _entry(value) != entry:
        raise ValueError(f"the array '{name}' is not the one that was saved")
    return value


def _entry(value):
    value = np.asarray(value)
    hashed = hashlib.sha256(f"{value.shape}{value.dtype.str}".encode())
    hashed.update(np.ascontiguousarray(value).tobytes())
    return {
        "shape": list(value.shape),
        "dtype": value.dtype.str,
        "sha256": hashed.hexdigest(),
    }


def _sha256(data):
    return hashlib.sha256(data).hexdigest()
