import numpy as np
import pytest
import tensorflow as tf

from tfp_refine.functional import members


def test_each_member_is_mapped_by_itself():
    stacked = {"a": np.arange(6.0).reshape(3, 2), "b": np.arange(3)}

    def one(member):
        assert member["a"].shape == (2,)
        return (member["a"] * 2.0, member["b"] + 1)

    like = (tf.zeros([3, 2], tf.float64), tf.zeros([3], tf.int64))
    doubled, added = members.map_members(one, stacked, like)
    np.testing.assert_array_equal(doubled, 2.0 * stacked["a"])
    np.testing.assert_array_equal(added, [1, 2, 3])


@pytest.mark.parametrize(
    ("size", "sizes"),
    [
        (1, [1] * 5),
        (2, [2, 2, 1]),
        (3, [3, 2]),
        (4, [4, 1]),
        (5, [5]),
        (9, [5]),
    ],
)
def test_batches_cover_all_members_in_their_order(size, sizes):
    state = {"x": np.arange(5.0)[::-1]}
    keys = np.array([3, 1, 4, 1, 5])
    batches = members.batches(size, state, keys)
    assert [len(keys) for _, keys in batches] == sizes
    result = members.together(
        {"sum": state["x"] + keys, "keys": tf.constant(keys)}
        for state, keys in batches
    )
    np.testing.assert_array_equal(result["sum"], state["x"] + keys)
    np.testing.assert_array_equal(result["keys"], keys)
