import numpy as np
import pytest

from tfp_refine.math import variance_schedule

PAPER = (0.7, 0.21, 0.063, 0.0189, 0.0081)


def test_fractions_of_the_paper_are_four_ratios_of_seven_tenths():
    ratios = variance_schedule.ratios_from_fractions(PAPER)
    np.testing.assert_allclose(ratios, [0.7] * 4, rtol=1e-12)


def test_four_ratios_of_seven_tenths_are_the_fractions_of_the_paper():
    fractions = variance_schedule.fractions_from_ratios([0.7] * 4)
    np.testing.assert_allclose(fractions, PAPER[:4], rtol=1e-12)
    np.testing.assert_allclose(1.0 - sum(fractions), PAPER[4], rtol=1e-12)


@pytest.mark.parametrize(
    "ratios",
    [[0.5], [0.7] * 5, [0.5] * 10, [0.1, 0.9, 0.3], [1 - 1e-6, 0.5], [1e-9]],
)
def test_ratios_survive_the_way_to_fractions_and_back(ratios):
    fractions = variance_schedule.fractions_from_ratios(ratios)
    np.testing.assert_allclose(
        variance_schedule.ratios_from_fractions(fractions), ratios, rtol=1e-9
    )


def test_small_fractions_of_what_is_left_are_kept():
    # The last fraction is 9e-12 of the original variance, yet not all of it.
    fractions = variance_schedule.fractions_from_ratios([0.9] * 12)
    np.testing.assert_allclose(
        variance_schedule.ratios_from_fractions(fractions),
        [0.9] * 12,
        rtol=1e-4,
    )


def test_fractions_and_the_rest_share_out_the_whole_variance():
    ratios = [0.3, 0.6, 0.2, 0.8]
    fractions = variance_schedule.fractions_from_ratios(ratios)
    left = np.prod(1.0 - np.array(ratios))
    np.testing.assert_allclose(sum(fractions) + left, 1.0, rtol=1e-14)


@pytest.mark.parametrize("last", [0.5, 0.5 - 1e-12, 0.5 + 1e-12])
def test_a_last_fraction_that_takes_the_rest_up_to_rounding_is_dropped(last):
    assert variance_schedule.ratios_from_fractions([0.5, last]) == (0.5,)


def test_a_last_fraction_that_leaves_a_little_is_kept():
    ratios = variance_schedule.ratios_from_fractions([0.5, 0.4999])
    np.testing.assert_allclose(ratios, [0.5, 0.9998], rtol=1e-12)


def test_fractions_that_rounding_adds_up_to_more_than_one_give_valid_ratios():
    ratios = variance_schedule.ratios_from_fractions([0.5, 0.5, 5e-10])
    assert ratios == (0.5,)
    # The third is more than the 7e-10 that are left.
    fractions = [0.5, 0.5 - 7e-10, 1.5e-9]
    ratios = variance_schedule.ratios_from_fractions(fractions)
    np.testing.assert_allclose(ratios, [0.5, 1.0 - 1.4e-9], rtol=1e-14)


def test_check_gives_a_tuple_of_floats():
    found = variance_schedule.check_ratios(np.float32([0.25, 0.5]))
    assert found == (0.25, 0.5)
    assert isinstance(found, tuple)
    assert {type(ratio) for ratio in found} == {float}


@pytest.mark.parametrize(
    ("values", "received"),
    [
        ([], r"\(\)"),
        ([0.5, 0.0], r"\(0.5, 0.0\)"),
        ([0.5, 1.0], r"\(0.5, 1.0\)"),
        ([-0.1], r"\(-0.1,\)"),
        ([1.5], r"\(1.5,\)"),
        ([float("nan")], r"\(nan,\)"),
        (0.7, "0.7"),
        ("paper", "'paper'"),
        ([0.7, None], r"\[0.7, None\]"),
        (None, "None"),
    ],
)
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (variance_schedule.check_ratios, "variance_ratios"),
        (variance_schedule.fractions_from_ratios, "variance_ratios"),
        (variance_schedule.ratios_from_fractions, "fractions"),
    ],
)
def test_numbers_outside_zero_and_one_are_rejected(
    function, name, values, received
):
    message = rf"`{name}` must .*in \(0, 1\). Received: {name}={received}$"
    with pytest.raises(ValueError, match=message):
        function(values)


def test_fractions_of_more_than_the_whole_are_rejected():
    with pytest.raises(ValueError, match="sum to at most 1.*sum=1.2"):
        variance_schedule.ratios_from_fractions([0.7, 0.5])


def test_one_fraction_that_takes_everything_is_rejected():
    with pytest.raises(ValueError, match="must leave some .*fractions="):
        variance_schedule.ratios_from_fractions([1.0 - 1e-12])
