"""Splits of tables with classes."""

import numpy as np

from tfp_refine import datasets


def split(table, number, seed):
    """Splits a `ClassTable` as regression data are split.

    Args:
        table: `ClassTable`.
        number: Number of the split, from 0.
        seed: Integer.

    Returns:
        split: `RegressionSplit`, with standardized inputs, and with rows of the
            table to take labels from.
    """
    return datasets.train_test_split(
        datasets.RegressionData(
            table.name, table.features, table.labels[:, np.newaxis]
        ),
        number,
        seed=seed,
    )
