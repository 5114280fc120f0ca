"""Inputs that are not of a data set."""

import types

import numpy as np
import pytest

from tfp_refine.experiments.data import unseen


def _config(*names):
    return types.SimpleNamespace(unseen=names, dataset="own")


def test_names_are_made_or_loaded_in_their_order():
    found = unseen.load(
        _config("other", "made"), {"made": lambda: [1]}, lambda name: [name]
    )
    assert list(found.items()) == [("other", ["other"]), ("made", [1])]
    assert unseen.load(_config(), {}) == {}


@pytest.mark.parametrize(
    ("name", "load_other", "message"),
    [
        ("own", str, "made, or other data sets. Received: --unseen=own for"),
        ("other", None, "--unseen must name some of made. Received"),
    ],
)
def test_other_names_are_refused(name, load_other, message):
    with pytest.raises(ValueError, match=message):
        unseen.load(_config(name), {"made": lambda: [1]}, load_other)


def test_shuffled_columns_keep_their_values(rng):
    x = rng.normal(size=(30, 4, 2))
    found = unseen.shuffled(x, 3)
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(x, axis=0))
    # Rows are torn apart: each number comes from a row of its own.
    rows = np.argmax(found[:, None] == x[None], axis=1).reshape(30, -1)
    assert np.mean([len(set(row)) for row in rows]) > 6
    np.testing.assert_array_equal(found, unseen.shuffled(x, 3))
    assert not np.array_equal(found, unseen.shuffled(x, 4))
