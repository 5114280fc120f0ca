"""The record of an experiment, `results.json`, and its folder."""

import hashlib
import importlib.metadata
import json
import pathlib
import platform
import time

import numpy as np

_PACKAGES = ("tensorflow", "tensorflow-probability", "keras", "numpy")


class Folder:
    """The output folder of an experiment that can be stopped and restarted.

    Args:
        path: The folder; created if it does not exist.
        flags: Dict of all flags, for the record.
        decisive: Dict of what decides the results in the folder.
        defaults: Dict of the values that flags have by default: what they were
            when the folder was written, if it does not know them.

    Raises:
        ValueError: If it cannot be written, or holds results of others.
    """

    def __init__(self, path, flags, decisive, defaults=None):
        self.path = pathlib.Path(path)
        self._flags = flags
        self._defaults = defaults or {}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._check(json.loads(json.dumps(decisive)))
        except OSError as error:
            raise ValueError(
                "--output_dir must be a folder that can be written. "
                f"Received: {str(path)!r} ({error})"
            ) from error

    def _check(self, decisive):
        saved = read(self.path / "flags.json")
        if saved is None and (self.path / "flags.json").exists():
            raise ValueError(
                f"'{self.path / 'flags.json'}' is damaged: what the folder "
                "holds results of is unknown. Choose another --output_dir."
            )
        if saved is None:
            write(self.path / "flags.json", decisive)
            return
        saved = self._defaults | saved
        differences = [
            f"--{name}: {saved.get(name)!r} there, {value!r} now"
            for name, value in decisive.items()
            if saved.get(name) != value
        ]
        if differences:
            raise ValueError(
                f"'{self.path}' holds results of other flags or data; choose "
                f"another --output_dir. They differ in {'; '.join(differences)}"
            )

    def once(self, name, compute):
        """Returns the record `name`, computed unless it is there already.

        Args:
            name: Name of a JSON file below the folder, without its ending.
            compute: Function that returns a dict; it gains `"seconds"`, the
                time that it took.

        Returns:
            record: Dict.
        """
        path = self.path / f"{name}.json"
        record = read(path)
        if record is None:
            begin = time.monotonic()
            record = compute()
            record["seconds"] = time.monotonic() - begin
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, record)
        return record

    def write_results(self, **contents):
        """Writes `results.json`: the flags, the versions and `contents`."""
        write(
            self.path / "results.json",
            {"flags": self._flags, "versions": _versions(), **contents},
        )


def digest(*arrays):
    """Returns a short text that tells arrays apart."""
    hashed = hashlib.sha256()
    for array in arrays:
        hashed.update(f"{array.shape}{array.dtype}".encode())
        hashed.update(np.ascontiguousarray(array).data)
    return hashed.hexdigest()[:16]


def digest_of_json(contents):
    """Returns a short text that tells what JSON can hold apart."""
    text = json.dumps(contents, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path):
    """Reads a JSON file; `None` if there is none or it was cut off."""
    try:
        return json.loads(pathlib.Path(path).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def write(path, contents):
    """Replaces a JSON file, so that a reader sees the old one or the new."""
    temporary = pathlib.Path(path).with_suffix(".tmp")
    temporary.write_text(json.dumps(contents, indent=2) + "\n")
    temporary.replace(path)


def _versions():
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
    }
