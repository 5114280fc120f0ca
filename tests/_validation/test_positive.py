import numpy as np
import pytest

from tfp_refine import _validation


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2), np.int64(3)])
def test_positive_numbers_become_floats(value):
    checked = _validation.positive("scale", value)
    assert type(checked) is float
    assert checked == value


@pytest.mark.parametrize(
    "value",
    [0, -1.0, float("nan"), float("inf"), 10**400, "1", None, True, [1.0], 1j],
)
def test_other_values_are_named(value):
    with pytest.raises(ValueError, match="`scale` .*Received: scale="):
        _validation.positive("scale", value)


@pytest.mark.parametrize("value", [1, np.int32(7), 10**12])
def test_positive_integers_become_ints(value):
    checked = _validation.positive_integer("steps", value)
    assert type(checked) is int
    assert checked == value


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", None, np.array([1])])
def test_other_values_are_no_positive_integers(value):
    with pytest.raises(ValueError, match="`steps` .*Received: steps="):
        _validation.positive_integer("steps", value)


@pytest.mark.parametrize("values", [[], (3,), [np.int64(3), 4], range(1, 3)])
def test_positive_integers_become_a_tuple(values):
    checked = _validation.positive_integers("hidden", values)
    assert checked == tuple(values)
    assert all(type(value) is int for value in checked)


@pytest.mark.parametrize("values", [3, None, "34", (0,), [1.0], [[2]], (True,)])
def test_other_values_hold_no_positive_integers(values):
    message = "`hidden` must hold positive integers. Received: hidden="
    with pytest.raises(ValueError, match=message):
        _validation.positive_integers("hidden", values)


@pytest.mark.parametrize("value", [0, 1, np.int32(7), np.uint8(0), 10**12])
def test_integers_that_are_not_negative_become_ints(value):
    checked = _validation.not_negative_integer("num_flows", value)
    assert type(checked) is int
    assert checked == value


@pytest.mark.parametrize(
    "value", [-1, np.int32(-7), 0.0, False, "0", None, np.array([0])]
)
def test_negative_integers_are_refused(value):
    with pytest.raises(
        ValueError, match="`num_flows` .*integer, not negative. Received"
    ):
        _validation.not_negative_integer("num_flows", value)


@pytest.mark.parametrize("value", [0, -1, -2.5, 1e300, np.float32(2)])
def test_finite_numbers_become_floats(value):
    checked = _validation.finite("loc", value)
    assert type(checked) is float
    assert checked == value


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -np.inf, np.float32("inf"), "1", None, True],
)
def test_what_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match="`loc` .*finite number. Received"):
        _validation.finite("loc", value)


@pytest.mark.parametrize("value", [1e-300, 0.5, np.float32(0.25), 1, 1.0])
def test_proportions_come_back_as_floats(value):
    found = _validation.proportion("alpha", value)
    assert isinstance(found, float)
    assert found == value


@pytest.mark.parametrize(
    "value", [0, -0.5, 1.5, float("nan"), float("inf"), "0.5", None, True]
)
def test_what_is_no_proportion_is_refused(value):
    with pytest.raises(ValueError, match=r"`alpha` must be in \(0, 1\]\. Rec"):
        _validation.proportion("alpha", value)


def test_one_can_be_excluded():
    assert _validation.proportion("weight", 0.9, one=False) == 0.9
    with pytest.raises(ValueError, match=r"`weight` must be in \(0, 1\)\. Rec"):
        _validation.proportion("weight", 1.0, one=False)


@pytest.mark.parametrize("value", [0, 0.0, 1e-300, np.float32(2)])
def test_numbers_that_are_not_negative_become_floats(value):
    found = _validation.not_negative("kl_scale", value)
    assert type(found) is float
    assert found == value


@pytest.mark.parametrize(
    "value", [-1e-300, -1, float("nan"), float("inf"), "1", None, False]
)
def test_negative_numbers_are_refused(value):
    with pytest.raises(ValueError, match="`kl_scale` .*not negative. Received"):
        _validation.not_negative("kl_scale", value)


@pytest.mark.parametrize("value", [2**53 + 1, 10**30])
def test_integers_that_libraries_do_not_take_are_refused(value):
    for check in (
        _validation.positive_integer,
        _validation.not_negative_integer,
    ):
        with pytest.raises(ValueError, match=r"at most 2\*\*53"):
            check("steps", value)


@pytest.mark.parametrize("value", [1e-18, 1, 1e18])
def test_scales_have_squares_in_float32(value):
    assert _validation.scale("scale", value) == value
    for wrong in (0.99e-18, 1.01e18, -1.0, float("nan"), True):
        with pytest.raises(ValueError, match="from 1e-18 to 1e\\+18. Received"):
            _validation.scale("scale", wrong)
