"""Files of named arrays that are never seen half-written."""

import os
import pathlib
import zipfile

import numpy as np


def write(path, arrays):
    """Replaces a file, so that an interruption leaves the old or the new one.

    Args:
        path: `pathlib.Path` of the file.
        arrays: Dict of arrays.
    """
    temporary = path.with_suffix(".tmp.npz")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def save(path, arrays):
    """Writes a file that a user named, as `write`.

    Args:
        path: File.
        arrays: Dict of arrays.

    Raises:
        ValueError: If it cannot be written.
    """
    try:
        write(pathlib.Path(path), arrays)
    except OSError as error:
        raise ValueError(
            "`path` must be a file that can be written. "
            f"Received: path={str(path)!r} ({error})"
        ) from error


def read(path: pathlib.Path):
    """Reads what `write` wrote.

    Args:
        path: `pathlib.Path` of the file.

    Returns:
        arrays: Dict of arrays.

    Raises:
        ValueError: If the file is missing, damaged, or no file of arrays.
    """
    try:
        with path.open("rb") as file:
            data = np.load(file, allow_pickle=False)
            if not isinstance(data, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            return dict(data)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"'{path}' cannot be read: {error}") from error
