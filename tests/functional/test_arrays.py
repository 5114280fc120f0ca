import keras
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import tensorflow as tf

from tfp_refine.functional import arrays


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(3, 2),
        tf.reshape(tf.range(6.0), [3, 2]),
        keras.Variable(np.arange(6.0).reshape(3, 2)),
        pd.DataFrame({"a": [0.0, 2.0, 4.0], "b": [1, 3, 5]}),
        pd.DataFrame({"a": pd.array([0, 2, 4], "Int64"), "b": [1.0, 3.0, 5.0]}),
        np.array([[0, 1], [2.0, 3], [4, 5]], object),
    ],
)
def test_arrays_of_all_kinds_become_numbers(value):
    found = arrays.tensor(arrays.array("x", value))
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found, np.arange(6.0).reshape(3, 2))


def test_a_frame_of_flags_and_numbers_is_numbers():
    frame = pd.DataFrame({"a": [True, False], "b": [0.5, 2.0]})
    found = arrays.array("x", frame)
    np.testing.assert_array_equal(found, [[1.0, 0.5], [0.0, 2.0]])


@pytest.mark.parametrize(
    "value",
    [
        np.array(["a b", "é"]),
        np.array(["a b", "é"], object),
        np.array([b"a b", "é".encode()]),
        pd.Series(["a b", "é"], index=[5, 7]),
        tf.constant(["a b", "é"]),
        np.array(["a b", "é"], np.dtypes.StringDType()),
    ],
)
def test_text_becomes_a_tensor_of_strings(value):
    found = arrays.array("x", value)
    assert arrays.is_text(found)
    assert found.numpy().tolist() == [b"a b", "é".encode()]
    assert arrays.tensor(found) is found


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x", np.ma.masked_less(np.arange(3.0), 1), "`x` must not be a masked"),
        ("y", np.ma.masked_less(np.arange(3.0), 1), "`y` must not be a masked"),
        ("x", tf.ragged.constant([[1.0], []]), "dense.*pad it.*RaggedTensor"),
        ("x", tf.sparse.from_dense([[1.0]]), r"dense.*to_dense.*SparseTensor"),
        ("x", scipy.sparse.eye(3), r"dense array: make it one, `x.toarray"),
        ("y", np.array(["a"]), r"`y` must hold numbers, .*dtype=<U1"),
        ("x", np.array(["a", None]), "text alone.*objects of NoneType, str"),
        ("x", np.array(3.0), r"numbers or text, examples along.*shape=\(\)"),
        ("x", np.zeros((0, 2)), r"`x` must not be empty.*\(0, 2\)"),
        (
            "x",
            np.zeros(2, "datetime64[s]"),
            "`x` must hold numbers or text.*datetime64",
        ),
        ("x", object(), "`x` must hold numbers, or text.*objects of object"),
        ("y", object(), "`y` must hold numbers. .*objects of object"),
        ("y", 1.0, "of type float .a list is a structure of arrays"),
        ("x", np.array([10**400], object), "`x` must hold.*dtype=object"),
        ("x", keras.Input(()), "`x` must be an array.*a KerasTensor"),
        (
            "x",
            pd.DataFrame({"a": [1.0, 2.0], "city": ["b", "c"]}),
            r"objects of float, str, in the columns \['city'\]",
        ),
        (
            "x",
            pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [0.5, 1]}),
            "objects of .*NAType",
        ),
    ],
)
def test_what_would_lose_something_is_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        arrays.array(name, value)


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        ([1.0, 1e300], "float32", "finite in float32.*1 of 2.*scale them"),
        ([1.0, 1e5], "float16", "finite in float16.*1 of 2"),
        ([1.0, np.nan, np.inf], "float32", "finite. .*2 of 3 values NaN"),
        ([np.nan, 1e300], "float32", "finite. .*1 of 2 values NaN"),
    ],
)
def test_the_cause_of_what_is_not_finite_is_named(value, dtype, message):
    with pytest.raises(ValueError, match=f"`y` must be {message}"):
        arrays.check_range("y", np.array(value), dtype)


def test_numbers_in_range_pass():
    arrays.check_range("x", np.array([1e5]), "float32")
    arrays.check_range("x", np.array([10**30], object).astype(float), "float64")
    arrays.check_finite("x", np.arange(3))
    arrays.check_finite("x", tf.constant(["a"]))
