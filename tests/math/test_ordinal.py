import numpy as np
import pytest
from scipy import special

from tfp_refine.math import ordinal


@pytest.mark.parametrize("num_outputs", [1, 2, 5])
def test_probabilities_are_differences_of_increasing_sigmoids(rng, num_outputs):
    outputs = rng.normal(size=(7, num_outputs))
    gaps = np.logaddexp(0.0, outputs[:, 1:])
    logits = np.cumsum(np.hstack([outputs[:, :1], gaps]), axis=-1)
    edges = [np.zeros((7, 1)), special.expit(logits), np.ones((7, 1))]
    np.testing.assert_allclose(
        np.exp(ordinal.log_probs(outputs)),
        np.diff(np.hstack(edges), axis=-1),
        rtol=1e-10,
    )


def test_one_output_is_the_logit_of_the_first_class(rng):
    outputs = rng.normal(size=(7, 1))
    found = ordinal.log_probs(outputs)
    expected = special.log_expit(np.hstack([outputs, -outputs]))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_small_probabilities_do_not_vanish():
    # sigmoid(51) - sigmoid(50) is 0 in float32, and so it is in float64.
    gap = np.log(np.expm1(1.0))
    found = ordinal.log_probs(np.array([[50.0, gap]]))
    expected = [0.0, -50.0 + np.log1p(-np.exp(-1.0)), -51.0]
    np.testing.assert_allclose(found[0], expected, rtol=1e-12, atol=1e-20)


@pytest.mark.parametrize("value", [-1e4, -80.0, 80.0, 1e4])
def test_probabilities_sum_to_one_at_the_extremes(value):
    found = ordinal.log_probs(np.full((1, 3), value, np.float32))
    np.testing.assert_allclose(np.sum(np.exp(found)), 1.0, rtol=1e-6)
