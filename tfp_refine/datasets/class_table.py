"""Tabular data sets with a class for each row."""

import os
from typing import NamedTuple

import numpy as np
from sklearn import datasets

from tfp_refine import _validation
from tfp_refine.datasets import uci

CLASS_TABLES = ("breast_cancer", "digits", "iris", "wine")


class ClassTable(NamedTuple):
    """A tabular classification data set.

    Attributes:
        name: Its name.
        features: Inputs in original units, float64, `[N, P]`.
        labels: Numbers of the classes, int32, `[N]`.
        class_names: The classes, in the order of their numbers.

    Example:

    ```python
    data = tfp_refine.datasets.load_class_table("iris")
    data.features.shape  # (150, 4)
    ```
    """

    name: str
    features: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]


def load_class_table(
    name: str, data_dir: str | os.PathLike | None = None
) -> ClassTable:
    """Loads a tabular classification data set.

    `breast_cancer`, `digits`, `iris` and `wine` come with scikit-learn. Every
    other set comes from `data_dir`, in the layout that `load_uci` reads; its
    target holds one number for each class, whichever.

    Args:
        name: One of `CLASS_TABLES`, or a folder in `data_dir`.
        data_dir: Folder that holds the data sets. `None` for those of
            scikit-learn.

    Returns:
        data: `ClassTable`.

    Raises:
        ValueError: If the name is unknown, a file holds bad content, or there
            are fewer than two classes or hardly two rows of one.
        FileNotFoundError: If a folder or a file is missing.

    Example:

    ```python
    data = tfp_refine.datasets.load_class_table("wine")
    data.features.shape  # (178, 13)
    ```
    """
    _validation.instance("name", name, str, "that of a data set")
    if data_dir is None:
        if name not in CLASS_TABLES:
            raise ValueError(
                f"`name` must be one of {', '.join(CLASS_TABLES)}, or a folder "
                f"in `data_dir`. Received: name={name!r}, data_dir=None"
            )
        found = getattr(datasets, f"load_{name}")()
        names = tuple(str(known) for known in found.target_names)
        labels = np.asarray(found.target, np.int32)
        return ClassTable(name, found.data.astype(np.float64), labels, names)
    table = uci.load_uci(name, data_dir)
    values, labels = np.unique(table.target[:, 0], return_inverse=True)
    if len(values) < 2 or len(values) > len(labels) / 2:
        raise ValueError(
            f"The target of '{name}' must hold the number of a class in each "
            f"row. Received: {len(values)} values in {len(labels)} rows"
        )
    return ClassTable(
        name,
        table.features,
        labels.reshape(-1).astype(np.int32),
        tuple(f"{value:g}" for value in values),
    )
