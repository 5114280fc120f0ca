"""Inputs that are not of a data set."""

import types

import numpy as np
import pytest

from tfp_refine.experiments.data import unseen


def _config(*names):
    return types.SimpleNamespace(unseen=names, dataset="own", seed=3)


def test_names_are_made_or_loaded_in_their_order():
    x = np.arange(12.0).reshape(4, 3)
    found = unseen.load(
        _config("other", "turned", "shuffled"),
        x,
        lambda: [1],
        lambda name: [name],
    )
    assert list(found) == ["other", "turned", "shuffled"]
    assert (found["other"], found["turned"]) == (["other"], [1])
    np.testing.assert_array_equal(found["shuffled"], unseen.shuffled(x, 3))
    assert unseen.load(_config(), x) == {}


@pytest.mark.parametrize(
    ("name", "load_other", "message"),
    [
        ("own", str, "shuffled, or other data sets. Received: --unseen=own"),
        ("other", None, "--unseen must name some of shuffled. Received"),
        ("turned", None, "--unseen must name some of shuffled. Received"),
    ],
)
def test_other_names_are_refused(name, load_other, message):
    with pytest.raises(ValueError, match=message):
        unseen.load(_config(name), np.eye(2), load_other=load_other)


def test_shuffled_columns_keep_their_values(rng):
    x = rng.normal(size=(30, 4, 2))
    found = unseen.shuffled(x, 3)
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(x, axis=0))
    # Rows are torn apart: each number comes from a row of its own.
    rows = np.argmax(found[:, None] == x[None], axis=1).reshape(30, -1)
    assert np.mean([len(set(row)) for row in rows]) > 6
    np.testing.assert_array_equal(found, unseen.shuffled(x, 3))
    assert not np.array_equal(found, unseen.shuffled(x, 4))
