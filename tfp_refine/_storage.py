"""Files that are replaced as a whole, in folders of one process at a time."""

import contextlib
import os
import pathlib
import uuid
import weakref

try:
    import fcntl
except ImportError:  # on Windows, where folders are not locked
    fcntl = None  # type: ignore[assignment]

# Pattern of the random part of a temporary file's name.
_DRAWN = "[0-9a-f]" * 32
_locks = weakref.WeakValueDictionary()


@contextlib.contextmanager
def replacing(path):
    """Opens a binary file that replaces the one at `path` when it is complete.

    An interruption, even a loss of power, leaves the old file or the new one,
    and so do several writers. An error leaves the old one and nothing else.
    Raises an `OSError` that names the file, such as when the disk is full.
    """
    path = pathlib.Path(path)
    # Not `mkstemp`, whose files others may not read.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if not isinstance(error, OSError):
            raise
        raise not_written(path, error) from error


def not_written(path, error):
    """Returns an `OSError` that names the file that one could not write."""
    named = OSError(f"Cannot write '{path}': {error.strerror or error}.")
    named.errno = error.errno
    return named


def write_bytes(path, contents):
    """Replaces a file by one with these bytes; see `replacing`."""
    with replacing(path) as file:
        file.write(contents)


def lock(folder, name, temporaries, argument):
    """Returns a lock of a folder, which this process holds while it exists.

    The process holds one of each `name`, for all its threads. A lock that is
    new removes the temporary files that a killed process has left of files that
    match `temporaries`. Raises a `ValueError` if another process holds it,
    with the `argument` that chooses the folder, and an `OSError` if the folder
    cannot be written.
    """
    # Not that of the parent in a forked process.
    path = pathlib.Path(folder).resolve() / f".{name}.lock"
    key = (os.getpid(), path)
    held = _locks.get(key)
    if held is None:
        held = _locks[key] = _Lock(path, argument)
        for leftover in path.parent.glob(f"{temporaries}.{_DRAWN}.tmp"):
            leftover.unlink(missing_ok=True)
    return held


class _Lock:
    """Lock of a file, which ends with its process, however that ends."""

    def __init__(self, path, argument):
        # A link that was planted there is not followed.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        self._file = os.open(path, flags, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(self._file, 20).decode(errors="replace").strip()
            raise ValueError(
                f"'{path.parent}' is in use by another process, pid "
                f"{owner or 'unknown'}. Wait until it ends, or choose another "
                f"{argument}."
            ) from error
        except OSError:  # File systems without locks.
            return
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def __del__(self):
        if hasattr(self, "_file"):
            os.close(self._file)


def _sync(folder):
    """Writes the names in a folder to the disk, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
