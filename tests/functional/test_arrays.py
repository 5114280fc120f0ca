import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import layers
from tfp_refine.functional import arrays


def test_examples_become_tensors_in_floatx(rng):
    x, y = rng.normal(size=(6, 3)), np.arange(6)
    x_out, y_out, num_examples = arrays.examples(x, y)
    assert x_out.dtype == "float32"
    assert y_out.dtype.is_integer
    np.testing.assert_array_equal(x_out, x.astype("float32"))
    np.testing.assert_array_equal(y_out, y)
    assert num_examples == 6


def test_nested_structures_keep_their_structure(rng):
    x = {"b": rng.normal(size=(4, 2)), "a": [tf.ones([4]), np.zeros((4, 1, 2))]}
    x_out, _, num_examples = arrays.examples(x, (np.ones(4), np.ones((4, 2))))
    assert num_examples == 4
    keras.tree.assert_same_structure(x, x_out)
    np.testing.assert_allclose(x_out["b"], x["b"], rtol=1e-6)


def test_a_dataset_is_read_whole_in_its_order():
    x = {"a": np.arange(14.0).reshape(7, 2)}
    y = np.arange(7)
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    for read in (dataset.batch(3), dataset.batch(1), dataset.batch(7)):
        x_out, y_out, num_examples = arrays.examples(read)
        np.testing.assert_array_equal(x_out["a"], x["a"])
        np.testing.assert_array_equal(y_out, y)
        assert num_examples == 7


def test_a_dataset_that_hides_its_size_is_read(rng):
    dataset = tf.data.Dataset.from_tensor_slices((np.ones((5, 2)), np.ones(5)))
    dataset = dataset.filter(lambda x, y: True).batch(2)
    assert dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY
    assert arrays.examples(dataset)[2] == 5


def _dataset(*parts):
    return tf.data.Dataset.from_tensor_slices(parts).batch(2)


ONES = np.ones((4, 2))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (ONES, None, "`y` must be given.*y=None, x of type ndarray"),
        (_dataset(ONES, ONES), ONES, "`y` must be None when `x` is a tf.data"),
        (_dataset(ONES), None, r"must yield pairs \(x, y\)"),
        (_dataset(ONES, ONES, ONES), None, r"must yield pairs \(x, y\)"),
        (_dataset(ONES, ONES).repeat(), None, "endless one; leave out"),
        (_dataset(ONES, ONES).take(0), None, "dataset must not be empty"),
        (ONES, np.ones(3), r"same number.*\[4\] in x and \[3\] in y"),
        ([ONES, ONES[:2]], np.ones(4), r"same number.*\[4, 2\] in x"),
        (ONES[:0], np.ones(0), r"`x` must not be empty.*shape=\(0, 2\)"),
        (ONES * np.nan, np.ones(4), "`x` must be finite.*8 of 8 values NaN"),
        (ONES, [np.array([1, np.inf, 2, 3])], "`y` must be finite.*1 of 4"),
        (np.array([["a"]]), np.ones(1), "`x` must hold numbers.*dtype=<U1"),
        (ONES, [1.0, 2.0], r"`y` must hold numbers.*shape=\(\)"),
        (ONES, ONES * 1j, "`y` must hold numbers.*complex"),
    ],
)
def test_bad_examples_are_refused(x, y, message):
    with pytest.raises(ValueError, match=message):
        arrays.examples(x, y)


def test_inputs_are_checked_the_same_way():
    x = arrays.inputs([ONES, np.arange(4)])
    assert x[0].dtype == "float32"
    assert x[1].dtype.is_integer
    with pytest.raises(ValueError, match=r"same number of.*\[2, 4\]"):
        arrays.inputs([ONES, ONES[:2]])
    with pytest.raises(ValueError, match="`x` must be finite"):
        arrays.inputs(ONES * np.inf)


def test_a_model_and_its_inputs_must_fit():
    two = [keras.Input((3,)), keras.Input((None, 2))]
    model = keras.Model(two, layers.DenseFlipout(1)(two[0]))
    arrays.check_fits(model, [tf.ones([5, 3]), tf.ones([5, 9, 2])])
    for wrong in (
        [tf.ones([5, 3])],
        [tf.ones([5, 4]), tf.ones([5, 9, 2])],
        [tf.ones([5, 3]), tf.ones([5, 2])],
        [tf.ones([5, 9, 2]), tf.ones([5, 3])],
    ):
        with pytest.raises(
            ValueError, match=r"expects inputs of shape \[\(None, 3\)"
        ):
            arrays.check_fits(model, wrong)


def test_a_model_that_says_nothing_of_its_inputs_takes_any():
    class Anything(keras.Model):
        def call(self, inputs):
            return inputs

    arrays.check_fits(Anything(), tf.ones([5, 3]))


def test_dataset_that_is_not_batched_is_told_so():
    dataset = tf.data.Dataset.from_tensor_slices((np.ones((4, 3)), np.ones(4)))
    with pytest.raises(ValueError, match="12.* in x and .*4.* must be batched"):
        arrays.examples(dataset)


def test_inputs_are_arrays():
    with pytest.raises(ValueError, match="Received: a tf.data.Dataset"):
        arrays.inputs(tf.data.Dataset.from_tensors(np.ones((4, 3))))


@pytest.mark.parametrize("empty", [(), [], {}])
def test_structures_without_inputs_are_refused(empty):
    for x, y in ((empty, np.ones(3)), (np.ones(3), empty)):
        with pytest.raises(ValueError, match="`(x|y)` must not be empty"):
            arrays.examples(x, y)
    with pytest.raises(ValueError, match="`x` must not be empty"):
        arrays.inputs(empty)
