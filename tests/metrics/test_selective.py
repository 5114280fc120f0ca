import itertools

import numpy as np
import pytest
import scipy.special

from tfp_refine import metrics


def probabilities(confidence):
    return np.stack([confidence, 1.0 - np.asarray(confidence)], axis=-1)


def test_the_most_confident_are_kept_first():
    probs = probabilities([0.9, 0.8, 0.7, 0.6])
    # Errors are the two least confident: risks 0, 0, 1/3, 1/2.
    found = metrics.area_under_risk_coverage([0, 0, 1, 1], probs)
    np.testing.assert_allclose(found, (0.0 + 0.0 + 1 / 3 + 1 / 2) / 4)
    found = metrics.area_under_risk_coverage([1, 1, 0, 0], probs)
    np.testing.assert_allclose(found, (1.0 + 1.0 + 2 / 3 + 1 / 2) / 4)


def test_of_equal_confidences_all_orders_count():
    confidence, errors = [0.9, 0.7, 0.7, 0.7, 0.6], [0, 1, 0, 0, 1]
    areas = [
        np.mean(
            np.cumsum([errors[i] for i in (0, *middle, 4)]) / np.arange(1, 6)
        )
        for middle in itertools.permutations([1, 2, 3])
    ]
    found = metrics.area_under_risk_coverage(errors, probabilities(confidence))
    np.testing.assert_allclose(found, np.mean(areas))


def test_without_differences_it_is_the_error_rate():
    probs = probabilities([0.8] * 10)
    found = metrics.area_under_risk_coverage([1, 1, 1] + [0] * 7, probs)
    np.testing.assert_allclose(found, 0.3)


def test_the_order_of_the_examples_says_nothing(rng):
    confidence, errors = [0.6, 0.9, 0.7, 0.8], [1, 0, 1, 0]
    for order in itertools.permutations(range(4)):
        found = metrics.area_under_risk_coverage(
            np.array(errors)[[*order]],
            probabilities(np.array(confidence)[[*order]]),
        )
        np.testing.assert_allclose(found, (0.0 + 0.0 + 1 / 3 + 1 / 2) / 4)


def test_logits_are_those_of_the_probabilities(rng):
    draws = rng.normal(0.0, 3.0, size=(4, 200, 3))
    labels = rng.integers(0, 3, 200)
    np.testing.assert_allclose(
        metrics.area_under_risk_coverage(labels, draws, from_logits=True),
        metrics.area_under_risk_coverage(
            labels, scipy.special.softmax(draws, axis=-1)
        ),
    )


def test_draws_are_averaged(rng):
    draws = rng.dirichlet(np.ones(3), size=(4, 20))
    labels = rng.integers(0, 3, 20)
    np.testing.assert_allclose(
        metrics.area_under_risk_coverage(labels, draws),
        metrics.area_under_risk_coverage(labels, draws.mean(axis=0)),
    )


def test_what_is_no_probability_is_refused():
    with pytest.raises(ValueError, match="sum to 1"):
        metrics.area_under_risk_coverage([0], [[0.5, 0.6]])
