"""Loads the UCI regression data sets, embedded or from a folder."""

import importlib.resources
import os
import re
from typing import NamedTuple

import numpy as np

from tfp_refine import _validation
from tfp_refine.datasets import numeric_table

UCI_NAMES = (
    "boston",
    "concrete",
    "energy",
    "kin8nm",
    "naval",
    "power",
    "protein",
    "wine",
    "yacht",
)

_EMBEDDED = ("concrete", "energy", "yacht")

# Short name -> folder in the layout that the literature shares.
_LITERATURE_FOLDERS = {
    "boston": "bostonHousing",
    "naval": "naval-propulsion-plant",
    "power": "power-plant",
    "protein": "protein-tertiary-structure",
    "wine": "wine-quality-red",
}
_SHORT_NAMES = {folder: name for name, folder in _LITERATURE_FOLDERS.items()}

_LAYOUT = (
    "<data_dir>/<name>/data/ with data.txt, index_features.txt and "
    "index_target.txt and, for given splits, index_train_<k>.txt and "
    "index_test_<k>.txt"
)


class RegressionData(NamedTuple):
    """A regression data set in its original units.

    Attributes:
        name: Short name of a set in `UCI_NAMES`, else the folder's name.
        features: Inputs, float64, `[N, P]`.
        target: Outputs, float64, `[N, 1]`.
        feature_names: Names of the columns of `features`, or `()`.
        target_name: Name of the target, or `""`.
        splits: Given splits: one `(train, test)` pair of row numbers each.

    Example:

    ```python
    data = tfp_refine.datasets.load_uci("yacht")
    data.features.shape  # (308, 6)
    ```
    """

    name: str
    features: np.ndarray
    target: np.ndarray
    feature_names: tuple[str, ...] = ()
    target_name: str = ""
    splits: tuple[tuple[np.ndarray, np.ndarray], ...] = ()


def load_uci(
    name: str, data_dir: str | os.PathLike | None = None
) -> RegressionData:
    """Loads a regression data set, embedded or from a folder.

    Yacht, energy (target: heating load) and concrete come with the library.
    Every other set, and the given splits of any set, come from `data_dir`, in
    the layout `<data_dir>/<folder>/data/` with the files `data.txt` (numbers
    separated by white space or commas), `index_features.txt`,
    `index_target.txt` (column numbers) and, optionally, `index_train_<k>.txt`
    and `index_test_<k>.txt` (row numbers), `k = 0, 1, ...`. The level `data/`
    may be left out.

    Args:
        name: One of `UCI_NAMES`, the literature's name for one of them (such
            as `"bostonHousing"`), or any other folder in `data_dir`.
        data_dir: Folder that holds the data sets. `None` for the embedded
            copies.

    Returns:
        data: `RegressionData`, in original units.

    Raises:
        ValueError: If the name is unknown or a file holds bad content.
        FileNotFoundError: If the set is not embedded and `data_dir` is `None`,
            or a folder or file is missing.

    Example:

    ```python
    data = tfp_refine.datasets.load_uci("concrete")
    data.features.shape  # (1030, 8)
    ```

    Reference:
        - [UCI Machine Learning Repository](https://archive.ics.uci.edu)
    """
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+ -]*", name):
        raise ValueError(
            "`name` must be the name of a data set or of a folder in "
            f"`data_dir`. Received: name={name!r}"
        )
    short = _SHORT_NAMES.get(name, name)
    if data_dir is None:
        return _load_embedded(short)
    return _load_folder(
        short, _find_folder(name, short, _validation.path("data_dir", data_dir))
    )


def _load_embedded(name):
    if name not in UCI_NAMES:
        raise ValueError(
            f"`name` must be one of {', '.join(UCI_NAMES)}, or a folder in "
            f"`data_dir`. Received: name={name!r}, data_dir=None"
        )
    if name not in _EMBEDDED:
        raise FileNotFoundError(
            f"Data set {name!r} is not embedded; {', '.join(_EMBEDDED)} are. "
            "Point to a copy with `data_dir` (in the experiments: --data_dir), "
            f"in the layout {_LAYOUT}."
        )
    file = importlib.resources.files("tfp_refine.datasets").joinpath(
        "data", f"{name}.csv"
    )
    header, _, rows = file.read_text(encoding="utf-8").partition("\n")
    *feature_names, target_name = header.split(",")
    table = numeric_table.parse_table(rows, file.name, first_line=2)
    return RegressionData(
        name=name,
        features=table[:, :-1],
        target=table[:, -1:],
        feature_names=tuple(feature_names),
        target_name=target_name,
    )


def _find_folder(name, short, data_dir):
    """Finds the folder with `data.txt`, with or without a `data/` level."""
    if not data_dir.is_dir():
        raise FileNotFoundError(
            "`data_dir` must be an existing folder. "
            f"Received: data_dir={str(data_dir)!r}"
        )
    for folder in (name, short, _LITERATURE_FOLDERS.get(short, name)):
        root = data_dir / folder
        if root.is_dir():
            found = _data_folder(root)
            if found is None:
                raise FileNotFoundError(
                    f"A data set must be in the layout {_LAYOUT}. No data.txt "
                    f"in {str(root / 'data')!r} or {str(root)!r}"
                )
            return found
    names = sorted(r.name for r in data_dir.iterdir() if _data_folder(r))
    found = ", ".join(names) or "none"
    if short in UCI_NAMES:
        hint = (
            " Leave out `data_dir` for the embedded copy."
            if short in _EMBEDDED
            else ""
        )
        raise FileNotFoundError(
            f"Data set {name!r} must be a folder in the layout {_LAYOUT}. "
            f"Data sets found in {str(data_dir)!r}: {found}.{hint}"
        )
    raise ValueError(
        f"`name` must be one of {', '.join(UCI_NAMES)} (embedded: "
        f"{', '.join(_EMBEDDED)}) or a folder in `data_dir`. Received: "
        f"name={name!r}; data sets found in {str(data_dir)!r}: {found}."
    )


def _data_folder(root):
    folders = (root / "data", root)
    return next((f for f in folders if (f / "data.txt").is_file()), None)


def _load_folder(name, folder):
    table = numeric_table.read_table(folder / "data.txt")
    features = _read_columns(folder / "index_features.txt", table.shape[1])
    target = _read_columns(folder / "index_target.txt", table.shape[1])
    if target.size != 1:
        raise ValueError(
            f"{folder / 'index_target.txt'} must hold one column number. "
            f"Received: {target.tolist()}"
        )
    if target[0] in features:
        raise ValueError(
            f"{folder / 'index_features.txt'} must not hold the target's "
            f"column. Received: {features.tolist()}, target {target[0]}"
        )
    return RegressionData(
        name=name,
        features=table[:, features],
        target=table[:, target],
        splits=_read_splits(folder),
    )


def _read_columns(path, num_columns):
    columns = numeric_table.read_indices(path)
    outside = columns[(columns < 0) | (columns >= num_columns)]
    if outside.size:
        raise ValueError(
            f"{path}: a column number must be in [0, {num_columns}), the "
            f"columns of data.txt. Received: {outside[0]}"
        )
    return columns


def _read_splits(folder):
    """Reads splits 0, 1, ...; a gap would silently renumber the later ones."""
    pattern = re.compile(r"index_(?:train|test)_(\d+)\.txt")
    matches = [pattern.fullmatch(path.name) for path in folder.iterdir()]
    numbers = [int(match[1]) for match in matches if match]
    return tuple(
        (
            numeric_table.read_indices(folder / f"index_train_{k}.txt"),
            numeric_table.read_indices(folder / f"index_test_{k}.txt"),
        )
        for k in range(max(numbers, default=-1) + 1)
    )
