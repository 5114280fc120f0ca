"""The output folder of an experiment: its records and its results."""

import contextlib
import dataclasses
import datetime
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import sys
import time
import typing
import zlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfp_refine import _storage
from tfp_refine import version
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import tables

if typing.TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1  # of results.json
_DIGEST = "crc32"  # of a record, in it
_PACKAGES = ("tensorflow", "tensorflow_probability", "keras", "numpy", "pandas")


@dataclasses.dataclass(frozen=True)
class Results:
    """Results of an experiment.

    Attributes:
        rows: `pandas.DataFrame` with the columns `tables.COLUMNS`.
        path: Folder of `results.json` and `results.csv`.
        reasons: Why a system is missing; empty where none is.
    """

    rows: "pd.DataFrame"
    path: pathlib.Path
    reasons: dict[str, str] = dataclasses.field(default_factory=dict)


class DamagedError(ValueError):
    """A record that cannot be read."""


class Folder:
    """Output folder of an experiment that can be stopped and restarted.

    A context manager: inside of it, the folder exists and belongs to this
    process. The lock ends with the process, however that ends.

    Args:
        path: Folder; created if it does not exist.
        experiment: Name of the experiment.
        config: Configuration, a dataclass with a method `to_json`.
        decides: Dict of the JSON values that decide all results: fields of
            `config`, and digests of data.

    Attributes:
        path: The folder, `pathlib.Path`.

    Raises:
        ValueError: On entry, if the folder cannot be written, is used by
            another process, or holds results of another configuration.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        experiment: str,
        config: Any,
        decides: Mapping[str, Any],
    ):
        self.path = pathlib.Path(path)
        self._experiment = experiment
        self._config = config
        self._decides = json.loads(_dumps(dict(decides)))
        self._lock = None

    def __enter__(self) -> typing.Self:
        with contextlib.ExitStack() as undo:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock = _storage.lock(
                    self.path, "experiment", "**/.*", "--output_dir"
                )
                undo.callback(self.__exit__)
                self._check(self.path / "config.json")
            except OSError as error:
                raise ValueError(
                    "--output_dir must be a folder that can be written. "
                    f"Received: --output_dir={self.path} ({error})"
                ) from error
            undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._lock = None

    def _check(self, path):
        """Refuses a folder that holds results of another configuration."""
        now = {"experiment": self._experiment, "decides": self._decides}
        if not path.exists():
            write_record(path, now)
        try:
            saved = read_record(path)
            there = {"experiment": saved["experiment"], **saved["decides"]}
        except (DamagedError, KeyError, TypeError) as error:
            raise ValueError(
                f"'{path}' is damaged, so the configuration of the results in "
                "this folder is unknown. Choose another --output_dir."
            ) from error
        here = {"experiment": self._experiment, **self._decides}
        flags = self._config.to_json()
        differences = [
            f"{f'--{name}' if name in flags else name}: "
            f"{json.dumps(here.get(name))} now, "
            f"{json.dumps(there.get(name))} there"
            for name in here | there
            if json.dumps(here.get(name)) != json.dumps(there.get(name))
        ]
        if differences:
            raise ValueError(
                f"'{self.path}' holds results of another configuration. Choose "
                f"another --output_dir. They differ in {'; '.join(differences)}"
            )

    def once(self, name: str, compute: Callable[[], Mapping[str, Any]]) -> dict:
        """Returns a record; computes it if the folder does not have it yet.

        Args:
            name: Name of the record, a path below the folder: `NAME.json`.
            compute: Function that returns a dict, for JSON.

        Returns:
            record: Dict, as read from the file, with `"seconds"`: how long it
                took to compute.

        Raises:
            DamagedError: If the record on disk is damaged.
            OSError: If the record cannot be written.
        """
        path = self.path / f"{name}.json"
        if not path.exists():
            begin = time.monotonic()
            record = dict(compute())
            record["seconds"] = time.monotonic() - begin
            path.parent.mkdir(parents=True, exist_ok=True)
            write_record(path, record)
        try:
            return read_record(path)
        except DamagedError as error:
            raise DamagedError(
                f"{error} Remove this file, and run the same command again to "
                "compute it anew."
            ) from error

    def write_results(
        self,
        rows: "pd.DataFrame | Iterable[Any]",
        *,
        config: Any = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Results:
        """Writes `results.json` and `results.csv`.

        In JSON, numbers that are not finite are `null`.

        Args:
            rows: As for `tables.frame`.
            config: Configuration to record; defaults to the folder's.
            extra: Dict of notes, for JSON.

        Returns:
            results: `Results`.

        Raises:
            ValueError: If the rows are not valid.
            OSError: If the files cannot be written.
        """
        frame = tables.frame(rows)
        contents = {
            "schema": SCHEMA,
            "experiment": self._experiment,
            "config": _typed(config or self._config),
            "versions": versions(),
            "date": datetime.datetime.now(datetime.UTC).isoformat(
                timespec="seconds"
            ),
            "machine": machine(),
            "seeds": sorted(set(frame["seed"].tolist())),
            "rows": frame.to_dict("records"),
            "notes": dict(extra or {}),
        }
        text = frame.to_csv(index=False)
        _storage.write_bytes(self.path / "results.csv", text.encode())
        plain = json.loads(_dumps(contents), parse_constant=lambda _: None)
        write_json(self.path / "results.json", plain)
        return Results(frame, self.path)


def read_json(path: str | os.PathLike[str]) -> Any:
    """Reads a JSON file.

    Raises:
        DamagedError: If it is damaged; the message names the file.
    """
    try:
        return json.loads(pathlib.Path(path).read_text())
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8
        raise DamagedError(f"'{path}' is damaged: {error}.") from error


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a record of `write_record`.

    Raises:
        DamagedError: If it is not as it was written; the message names the
            file.
    """
    record = read_json(path)
    if not isinstance(record, dict) or record.pop(_DIGEST, None) != _crc32(
        record
    ):
        raise DamagedError(f"'{path}' is damaged: it is not as it was written.")
    return record


def write_record(
    path: str | os.PathLike[str], record: Mapping[str, Any]
) -> None:
    """Writes a dict with a digest of it, as `write_json` does."""
    write_json(path, {**record, _DIGEST: _crc32(record)})


def write_json(path: str | os.PathLike[str], contents: Any) -> None:
    """Replaces a JSON file at once: readers see the old one or the new.

    Args:
        path: File.
        contents: JSON values; NumPy's numbers and arrays, too.

    Raises:
        OSError: If the file cannot be written; the old one is still there.
    """
    _storage.write_bytes(path, f"{_dumps(contents)}\n".encode())


def digest(*arrays: np.ndarray) -> str:
    """Returns a short text that differs where arrays differ."""
    hashed = hashlib.sha256()
    for array in arrays:
        hashed.update(f"{array.shape}{array.dtype}".encode())
        hashed.update(np.ascontiguousarray(array).data)
    return hashed.hexdigest()[:16]


def finite(values: Any, name: str) -> np.ndarray:
    """Returns values as an array.

    Args:
        values: Values.
        name: Their name, for the error: plural.

    Raises:
        FloatingPointError: If some are not finite.
    """
    values = np.asarray(values)
    bad = np.count_nonzero(~np.isfinite(values))
    if bad:
        raise FloatingPointError(
            f"{bad} of {values.size} numbers of its {name} are not finite."
        )
    return values


def versions() -> dict[str, str]:
    """Returns the versions of this package, Python and the main libraries."""
    found = {
        "tfp_refine": version.__version__,
        "python": sys.version.split()[0],
    }
    for name in _PACKAGES:
        # Builds of TensorFlow have other names: tf-nightly, tensorflow-cpu.
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            module = sys.modules.get(name)
            found[name] = (
                module.__version__
                if module
                else importlib.metadata.version(name)
            )
    return found


def machine() -> dict[str, Any]:
    """Returns the platform, processors, memory (GiB) and GPUs in use."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    tf = sys.modules.get("tensorflow")
    return {
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "memory": round(memory / 2**30, 1),
        "gpus": [
            tf.config.experimental.get_device_details(gpu).get("device_name")
            for gpu in (tf.config.list_physical_devices("GPU") if tf else ())
        ],
    }


def _crc32(record):
    return zlib.crc32(_dumps(record).encode())


def _typed(config):
    """Returns values and types of a configuration's fields."""
    specs = config_lib.specs(type(config))
    return {
        name: {"value": value, "type": specs[name].type_name}
        for name, value in config.to_json().items()
    }


def _dumps(contents):
    return json.dumps(contents, indent=2, default=_plain)


def _plain(value):
    """Returns Python's numbers and lists for those of NumPy."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"Not for JSON. Received: {value!r}")
