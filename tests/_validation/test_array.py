"""Arguments that are arrays of numbers, for all that need no TensorFlow."""

import numpy as np
import pytest

from tfp_refine import _validation


@pytest.mark.parametrize(
    "value", [None, "2", [[1.0], []], [1j], [10**400], {"a": 1}, [np.nan, 1.0]]
)
def test_what_is_no_array_of_numbers_is_refused(value):
    with pytest.raises(ValueError, match="`grid` must be an array of finite"):
        _validation.array("grid", value)


@pytest.mark.parametrize("value", [1.0, [], [1.0, 2.0], [[1.0, 2.0]]])
def test_another_shape_is_refused(value):
    with pytest.raises(ValueError, match=r"`grid` must have shape \[any, 3\]"):
        _validation.array("grid", value, None, 3)


def test_numbers_are_returned_in_float64():
    found = _validation.array("grid", [[1, 2]], None, 2)
    np.testing.assert_array_equal(found, [[1.0, 2.0]], strict=True)
    assert _validation.array("grid", [-np.inf], finite=False) == -np.inf
