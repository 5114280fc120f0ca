import numpy as np
import pytest
import scipy.special
import sklearn.metrics
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_refine import metrics

S, N, C = 5, 60, 4


@pytest.fixture
def logits(rng):
    return rng.normal(0.0, 3.0, size=(S, N, C))


@pytest.fixture
def probs(logits):
    return scipy.special.softmax(logits, axis=-1)


@pytest.fixture
def labels(rng):
    return rng.integers(C, size=N)


def test_averaged_probabilities_give_the_score_of_sklearn(probs, labels):
    averaged = probs.mean(axis=0)
    expected = sklearn.metrics.brier_score_loss(
        labels, averaged, labels=range(C), scale_by_half=False
    )
    score = metrics.brier_score(labels, probs)
    assert isinstance(score, float)
    np.testing.assert_allclose(score, expected, rtol=1e-12)
    np.testing.assert_allclose(
        metrics.brier_score(np.eye(C)[labels], averaged), expected, rtol=1e-12
    )


def test_score_is_one_above_that_of_tfp(logits, labels):
    # TFP leaves out the squared norm of the one-hot label.
    expected = 1.0 + tf.reduce_mean(
        tfp.stats.brier_score(labels, tf.constant(logits[0]))
    )
    score = metrics.brier_score(labels, logits[0], from_logits=True)
    np.testing.assert_allclose(score, expected, rtol=1e-12)


def test_logits_are_averaged_as_probabilities(logits, probs, labels):
    np.testing.assert_allclose(
        metrics.brier_score(labels, logits, from_logits=True),
        metrics.brier_score(labels, probs),
        rtol=1e-12,
    )


@pytest.mark.parametrize("num_classes", [2, 10])
def test_uniform_probabilities_give_one_less_their_probability(num_classes):
    uniform = np.full((3, num_classes, num_classes), 1.0 / num_classes)
    score = metrics.brier_score(np.arange(num_classes), uniform)
    np.testing.assert_allclose(score, 1.0 - 1.0 / num_classes, rtol=1e-12)


def test_sure_predictions_score_zero_if_right_and_two_if_wrong():
    assert metrics.brier_score([0, 1, 2], np.eye(3)) == 0.0
    assert metrics.brier_score([1, 2, 0], np.eye(3)) == 2.0
    logits = 1e4 * np.eye(3)
    assert metrics.brier_score([1, 1, 0], logits, True) == pytest.approx(4 / 3)


def test_variance_over_draws_is_what_averaging_gains(probs, labels):
    each = [metrics.brier_score(labels, draw) for draw in probs]
    variance = probs.var(axis=0).sum(axis=-1).mean()
    np.testing.assert_allclose(
        metrics.brier_score(labels, probs),
        np.mean(each) - variance,
        rtol=1e-12,
    )
