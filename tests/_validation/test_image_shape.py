import numpy as np
import pytest

from tfp_refine import _validation


@pytest.mark.parametrize(
    "value", [(28, 20, 1), [28, 20, 1], np.array([28, 20, 1])]
)
def test_three_sizes_become_a_tuple_of_ints(value):
    shape = _validation.image_shape("input_shape", value)
    assert shape == (28, 20, 1)
    assert [type(size) for size in shape] == [int] * 3


@pytest.mark.parametrize(
    "value",
    [
        (28, 28),
        (1, 28, 28, 1),
        (28, 28, 0),
        (-28, 28, 1),
        (28.0, 28, 1),
        (None, None, 3),
        (),
        "abc",
        28,
        None,
    ],
)
def test_other_values_are_named(value):
    with pytest.raises(ValueError, match="`image` .*Received: image="):
        _validation.image_shape("image", value)
