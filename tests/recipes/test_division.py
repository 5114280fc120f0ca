"""Tests of the division of networks among factors."""

import numpy as np
import pytest

from tfp_refine import ensembles
from tfp_refine import recipes

SCALES = (3.0, 1.0, 0.3, 0.1)


@pytest.mark.parametrize("weights", [(0.02, 0.05, 0.15, 0.78), (0.25,) * 4])
@pytest.mark.parametrize("count", [1, 2, 10])
def test_members_have_the_weights_of_their_factors(weights, count):
    kl_scales, shares = recipes.divide_networks(SCALES, weights, count)
    for kl_scale, weight in zip(SCALES, weights, strict=True):
        together = shares[kl_scales == kl_scale]
        assert np.sum(together) == pytest.approx(weight)
        assert np.ptp(together) == 0.0
    # Networks go to factors by their weights; only factors without one share.
    counts = ensembles.apportion(weights, count)
    expected = np.repeat(SCALES, counts)
    np.testing.assert_array_equal(kl_scales[:count], expected)
    alone = np.array(SCALES)[counts == 0]
    np.testing.assert_array_equal(kl_scales[count:], alone)


def test_a_factor_without_weight_has_no_member():
    kl_scales, shares = recipes.divide_networks((3.0, 1.0), (0.0, 1.0), 2)
    assert kl_scales.tolist() == [1.0, 1.0]
    assert shares.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [0.5, 0.5], 2), r"`kl_scales` must have shape \[2\]"),
        (([1.0, 2.0], [0.5, 0.6], 2), "`weights` must.*sum 1"),
        (([1.0], [1.0], 0), "must be a positive integer.*Received.*0"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        recipes.divide_networks(*arguments)
