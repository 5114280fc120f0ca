"""The most memory that a process uses at a time."""

import pathlib
import re

_STATUS = pathlib.Path("/proc/self/status")
_RESET = pathlib.Path("/proc/self/clear_refs")


class Peak:
    """How far the memory of this process rises, inside of a `with`.

    Memory that was freed before and is used again does not count.

    Attributes:
        mebibytes: Float; `None` before the end, and where the system does not
            tell (it does on Linux).
    """

    mebibytes = None

    def __enter__(self):
        try:
            _RESET.write_text("5")  # the high-water mark begins anew
            self._begin = _read("VmRSS")
        except OSError:
            self._begin = None
        return self

    def __exit__(self, *error):
        end = _read("VmHWM")
        if None not in (self._begin, end):
            self.mebibytes = max(0.0, (end - self._begin) / 1024.0)


def _read(name):
    """Returns an entry of the status, KiB, or `None`."""
    try:
        found = re.search(rf"{name}:\s*(\d+) kB", _STATUS.read_text())
    except OSError:
        return None
    return float(found[1]) if found else None
