import numpy as np
import pytest

from tfp_refine import arguments


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2), np.int64(3)])
def test_positive_numbers_become_floats(value):
    checked = arguments.positive("scale", value)
    assert type(checked) is float
    assert checked == value


@pytest.mark.parametrize(
    "value", [0, -1.0, float("nan"), float("inf"), "1", None, True, [1.0], 1j]
)
def test_other_values_are_named(value):
    with pytest.raises(ValueError, match="`scale` .*Received: scale="):
        arguments.positive("scale", value)


@pytest.mark.parametrize("value", [1, np.int32(7), 10**12])
def test_positive_integers_become_ints(value):
    checked = arguments.positive_integer("steps", value)
    assert type(checked) is int
    assert checked == value


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", None, np.array([1])])
def test_other_values_are_no_positive_integers(value):
    with pytest.raises(ValueError, match="`steps` .*Received: steps="):
        arguments.positive_integer("steps", value)
