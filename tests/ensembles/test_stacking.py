"""Tests of the weights of mixtures of predictive distributions."""

import numpy as np
import pytest
import scipy.optimize
import scipy.special

from tfp_refine import ensembles


def _examples(rng, count=4, num_examples=30, spread=2.0):
    return spread * rng.normal(size=(count, num_examples)) - 1.0


def _objective(weights, log_likelihood, concentration):
    mixed = scipy.special.logsumexp(
        log_likelihood + np.log(weights)[:, np.newaxis], axis=0
    )
    return np.sum(mixed) + (concentration - 1.0) * np.sum(np.log(weights))


@pytest.mark.parametrize("concentration", [1.5, 2.0, 5.0])
def test_no_component_gains_by_more_weight(rng, concentration):
    values = _examples(rng)
    weights = ensembles.stacking_weights(values, concentration=concentration)
    shares = scipy.special.softmax(
        values + np.log(weights)[:, np.newaxis], axis=0
    )
    # The derivatives of the objective on the simplex are equal.
    slopes = (shares.sum(axis=1) + concentration - 1.0) / weights
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-6)
    assert np.sum(weights) == pytest.approx(1.0, abs=1e-12)


def test_maximum_likelihood_leaves_components_out(rng):
    values = _examples(rng, num_examples=15)
    weights = ensembles.stacking_weights(values, concentration=1.0)
    mixed = weights @ np.exp(values)
    slopes = np.mean(np.exp(values) / mixed, axis=1)
    assert np.all(slopes < 1.0 + 1e-4)
    assert np.any(weights < 1e-3)
    np.testing.assert_allclose(slopes[weights > 1e-2], 1.0, rtol=1e-4)


@pytest.mark.parametrize("concentration", [1.2, 2.0])
def test_another_optimizer_finds_the_same(rng, concentration):
    values = _examples(rng, count=3)

    def loss(logits):
        weights = scipy.special.softmax(logits)
        return -_objective(weights, values, concentration)

    found = scipy.optimize.minimize(loss, np.zeros(3), tol=1e-10)
    np.testing.assert_allclose(
        ensembles.stacking_weights(values, concentration=concentration),
        scipy.special.softmax(found.x),
        atol=1e-5,
    )


def test_one_component_that_explains_all_has_the_counts_of_the_prior():
    values = np.full((3, 17), -1000.0)
    values[1] = 0.0
    np.testing.assert_allclose(
        ensembles.stacking_weights(values),
        np.array([1.0, 18.0, 1.0]) / 20.0,
        rtol=1e-9,
    )


def test_equal_components_have_equal_weights(rng):
    values = np.repeat(rng.normal(size=(1, 9)), 4, axis=0)
    np.testing.assert_allclose(ensembles.stacking_weights(values), 0.25)


def test_densities_count_relative_to_those_of_the_others(rng):
    values = _examples(rng)
    shifted = values + 100.0 * rng.normal(size=values.shape[1])
    np.testing.assert_allclose(
        ensembles.stacking_weights(shifted),
        ensembles.stacking_weights(values),
        atol=1e-6,
    )


def test_an_example_may_be_impossible_under_one_component(rng):
    values = _examples(rng)
    values[0, 0] = -np.inf
    found = ensembles.stacking_weights(values)
    values[0, 0] = -1e6
    np.testing.assert_allclose(found, ensembles.stacking_weights(values))


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1.0, 2.0],
        [[], []],
        [[np.nan, 0.0]],
        [[np.inf, 0.0]],
        [[-np.inf, 0.0], [-np.inf, 0.0]],
    ],
)
def test_other_values_are_refused(values):
    with pytest.raises(ValueError, match="log_likelihood"):
        ensembles.stacking_weights(values)


@pytest.mark.parametrize("concentration", [0.5, 0.0, -1.0, np.nan, "one"])
def test_a_concentration_below_one_is_refused(concentration):
    with pytest.raises(ValueError, match="concentration"):
        ensembles.stacking_weights([[0.0]], concentration=concentration)


def test_an_example_counts_as_often_as_its_weight_says(rng):
    values = _examples(rng, num_examples=5)
    counts = np.array([3, 0, 1, 2, 5])
    found = ensembles.stacking_weights(values, sample_weight=counts)
    repeated = np.repeat(values, counts, axis=1)
    np.testing.assert_allclose(
        found, ensembles.stacking_weights(repeated), atol=1e-7
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"`sample_weight` must have shape \[30\].*\[1\]"),
        ([-1.0] * 30, "`sample_weight` must not be negative.*-1.0"),
        ([0.0] * 30, "`sample_weight` must not be.*0 for all"),
    ],
)
def test_bad_weights_of_examples_are_refused(rng, weights, message):
    with pytest.raises(ValueError, match=message):
        ensembles.stacking_weights(_examples(rng), sample_weight=weights)
