import numpy as np
import pytest
import tensorflow as tf

from tfp_refine.functional import members


@pytest.mark.parametrize("vectorized", [False, True])
def test_each_member_is_mapped_by_itself(vectorized):
    stacked = {"a": np.arange(6.0).reshape(3, 2), "b": np.arange(3)}

    def one(member):
        assert member["a"].shape == (2,)
        return (member["a"] * 2.0, member["b"] + 1)

    like = (tf.zeros([3, 2], tf.float64), tf.zeros([3], tf.int64))
    doubled, added = members.map_members(one, stacked, like, vectorized)
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


@pytest.mark.parametrize("make", [np.array, tf.constant])
def test_members_are_replaced_in_place_or_in_a_copy(make):
    stacked = make(np.arange(8.0).reshape(4, 2))
    before = np.array(stacked)
    values = tf.constant([[-1.0, -2.0], [-3.0, -4.0]], tf.float64)
    result = members.replace(stacked, np.array([2, 0]), values)
    expected = [[-3.0, -4.0], [2.0, 3.0], [-1.0, -2.0], [6.0, 7.0]]
    np.testing.assert_array_equal(result, expected)
    if isinstance(stacked, np.ndarray):
        assert result is stacked
    else:
        np.testing.assert_array_equal(stacked, before)
    every = tf.zeros([4, 2], tf.float64)
    assert members.replace(result, np.arange(4), every) is every
