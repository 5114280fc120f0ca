"""Peak memory of this process."""

import os
import pathlib
import re
from typing import Self


class Peak:
    """Context manager: how far the memory of this process rises inside of it.

    Memory that was freed before and is used again does not count.

    Args:
        proc: Folder in which Linux describes the process.

    Attributes:
        mebibytes: Float; `None` before the end, and where the system does not
            report it (Linux does).
    """

    def __init__(self, proc: str | os.PathLike[str] = "/proc/self"):
        self.mebibytes: float | None = None
        self._proc = pathlib.Path(proc)

    def __enter__(self) -> Self:
        try:
            # Resets the high-water mark.
            (self._proc / "clear_refs").write_text("5")
            self._begin = self._read("VmRSS")
        except OSError:
            self._begin = None
        return self

    def __exit__(self, *error: object) -> None:
        end = self._read("VmHWM")
        if None not in (self._begin, end):
            self.mebibytes = max(0.0, (end - self._begin) / 1024.0)

    def _read(self, name):
        """Returns an entry of the process status in KiB, or `None`."""
        try:
            status = (self._proc / "status").read_text()
        except OSError:
            return None
        found = re.search(rf"{name}:\s*(\d+) kB", status)
        return float(found[1]) if found else None
