"""Reads tables of numbers and reports the place of a bad one."""

import math
import pathlib

import numpy as np


def read_table(path: pathlib.Path) -> np.ndarray:
    """Reads rows of finite numbers from a file, float64, `[N, columns]`.

    Bytes that are not UTF-8 become the replacement character, so that the
    parser can name the line they stand on.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"A data set must have the file {path.name!r}. Not found: {path}"
        )
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    return parse_table(text, str(path))


def read_indices(path: pathlib.Path) -> np.ndarray:
    """Reads row or column numbers, int64, `[K]`, which may be "8.000e+00"."""
    values = read_table(path).reshape(-1)
    fractional = values[values != np.rint(values)]
    if fractional.size:
        raise ValueError(
            f"{path} must hold whole numbers. Received: {fractional[0]}"
        )
    return values.astype(np.int64)


def parse_table(text: str, source: str, first_line: int = 1) -> np.ndarray:
    """Parses rows of finite numbers, float64, `[N, columns]`.

    A comma in the first row decides for commas, else white space separates.
    Blank lines are skipped. `source` and `first_line` name the place in errors.
    """
    rows: list[list[float]] = []
    delimiter = None
    for number, line in enumerate(text.splitlines(), start=first_line):
        if not line.strip():
            continue
        if not rows:
            delimiter = "," if "," in line else None
        where = f"{source}, line {number}"
        cells = line.split(delimiter)
        row = [
            _parse_cell(cell.strip(), f"{where}, column {column}")
            for column, cell in enumerate(cells, start=1)
        ]
        if rows and len(row) != len(rows[0]):
            raise ValueError(
                f"{where}: every row must have as many cells as the first, "
                f"{len(rows[0])}. Received: {len(row)} cells, {line!r}"
            )
        rows.append(row)
    if not rows:
        raise ValueError(f"{source} must hold rows of numbers. It is empty.")
    return np.asarray(rows, dtype=np.float64)


def _parse_cell(cell, where):
    if not cell:
        raise ValueError(f"{where}: the cell is missing.")
    try:
        # Python reads "1_0" as 10; in a data file it is a damaged cell.
        value = float(cell.replace("_", "?"))
    except ValueError:
        raise ValueError(
            f"{where}: a cell must be a number. Received: {cell!r}"
        ) from None
    if not math.isfinite(value):
        raise ValueError(f"{where}: a cell must be finite. Received: {cell!r}")
    return value
