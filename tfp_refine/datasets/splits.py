"""Splits a regression data set in training and test rows, standardized."""

import math
from typing import NamedTuple

import numpy as np

from tfp_refine import _validation
from tfp_refine.datasets.standardizer import Standardizer
from tfp_refine.datasets.uci import RegressionData


class RegressionSplit(NamedTuple):
    """Training and test rows, standardized by the training rows alone.

    Attributes:
        x_train: Standardized inputs, float32, `[N_train, P]`.
        y_train: Standardized outputs, float32, `[N_train, 1]`.
        x_test: Standardized inputs, float32, `[N_test, P]`.
        y_test: Standardized outputs, float32, `[N_test, 1]`.
        y_test_original: Outputs in original units, float64, `[N_test, 1]`.
        x_scaler: `Standardizer` of the inputs.
        y_scaler: `Standardizer` of the outputs. `y_scaler.inverse` and
            `y_scaler.inverse_log_likelihood` go back to original units.
        train_index: Rows of the data set in the training split, `[N_train]`.
        test_index: Rows of the data set in the test split, `[N_test]`.

    Example:

    ```python
    data = tfp_refine.datasets.load_uci("yacht")
    split = tfp_refine.datasets.train_test_split(data, 0)
    y_test = split.y_scaler.inverse(split.y_test)
    np.allclose(y_test, split.y_test_original)  # True
    ```
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    y_test_original: np.ndarray
    x_scaler: Standardizer
    y_scaler: Standardizer
    train_index: np.ndarray
    test_index: np.ndarray


def train_test_split(
    data: RegressionData,
    split: int,
    seed: int = 0,
    test_fraction: float = 0.2,
    kind: str = "random",
) -> RegressionSplit:
    """Splits a data set and standardizes it by its training rows.

    Args:
        data: `RegressionData` with `N >= 2` rows.
        split: Number of the split, from 0.
        seed: Seed of the random splits. Split `k` depends on `(seed, k)` (and
            `N`) alone, however many other splits are made.
        test_fraction: Fraction of test rows of a random split, in `(0, 1)`;
            their number is rounded up.
        kind: `"random"`, or `"given"` for the splits that came with the data,
            which have no use for `seed` and `test_fraction`.

    Returns:
        regression_split: `RegressionSplit`.

    Raises:
        ValueError: If the data are not `[N, P]` and `[N, 1]` with `N >= 2`, a
            side would be empty, `test_fraction`, `split`, `seed` or `kind` is
            not as above, there is no such given split, or its row numbers are
            out of range or shared by both sides.

    Example:

    ```python
    data = tfp_refine.datasets.load_uci("yacht")
    split = tfp_refine.datasets.train_test_split(data, 0)
    split.x_train.shape  # (246, 6)
    ```
    """
    _validation.instance("data", data, RegressionData, "a RegressionData")
    features = np.asarray(data.features, dtype=np.float64)
    target = np.asarray(data.target, dtype=np.float64)
    _check_data(data.name, features, target)
    split = _validation.not_negative_integer("split", split)
    _validation.one_of("kind", kind, ("random", "given"))
    if kind == "random":
        seed = _validation.not_negative_integer("seed", seed)
        train, test = _random_indices(len(target), split, seed, test_fraction)
    else:
        train, test = _given_indices(data, split)
    x_scaler = Standardizer.fit(features[train])
    y_scaler = Standardizer.fit(target[train])
    return RegressionSplit(
        x_train=x_scaler.transform(features[train]).astype(np.float32),
        y_train=y_scaler.transform(target[train]).astype(np.float32),
        x_test=x_scaler.transform(features[test]).astype(np.float32),
        y_test=y_scaler.transform(target[test]).astype(np.float32),
        y_test_original=target[test],
        x_scaler=x_scaler,
        y_scaler=y_scaler,
        train_index=train,
        test_index=test,
    )


def _random_indices(num_rows, split, seed, test_fraction):
    test_fraction = _validation.proportion(
        "test_fraction", test_fraction, one=False
    )
    # Rounded first, as 0.7 * 10 is 7.000000000000001.
    num_test = math.ceil(round(test_fraction * num_rows, 6))
    if not 0 < num_test < num_rows:
        raise ValueError(
            "`test_fraction` must leave a row on either side. Received: "
            f"test_fraction={test_fraction!r}, which makes {num_test} of "
            f"{num_rows} rows test rows"
        )
    order = np.random.default_rng([seed, split]).permutation(num_rows)
    return order[num_test:], order[:num_test]


def _given_indices(data, split):
    if split >= len(data.splits):
        raise ValueError(
            f"`split` must be below the number of given splits of data set "
            f"{data.name!r}, {len(data.splits)}. Received: split={split}"
            + ("" if data.splits else "; kind='random' needs none")
        )
    where = f"Given split {split} of data set {data.name!r}"
    num_rows = len(data.target)
    train, test = (np.asarray(rows) for rows in data.splits[split])
    for side, rows in (("training", train), ("test", test)):
        if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu":
            raise ValueError(
                f"{where} must have a list of {side} row numbers. Received: "
                f"shape {rows.shape}, {rows.dtype}"
            )
        outside = rows[(rows < 0) | (rows >= num_rows)]
        if outside.size:
            raise ValueError(
                f"{where}: {side} row numbers must be in [0, {num_rows}). "
                f"Received: {outside[0]}"
            )
    shared = np.intersect1d(train, test)
    if shared.size:
        raise ValueError(
            f"{where}: training and test rows must not overlap. Received: "
            f"{shared.size} rows on both sides, such as {shared[0]}"
        )
    return train, test


def _check_data(name, features, target):
    if features.ndim != 2 or target.shape != (len(features), 1):
        raise ValueError(
            f"Data set {name!r} must have features [N, P] and target [N, 1]. "
            f"Received: shapes {features.shape} and {target.shape}"
        )
    if len(features) < 2:
        raise ValueError(
            f"Data set {name!r} must have at least 2 rows. "
            f"Received: {len(features)}"
        )
    # Test rows too: the scalers see the training rows only.
    if not (np.all(np.isfinite(features)) and np.all(np.isfinite(target))):
        raise ValueError(
            f"Data set {name!r} must be finite. Received: NaN or infinity"
        )
