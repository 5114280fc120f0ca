import keras
import numpy as np
import pytest
import scipy.special
import sklearn.metrics

from tfp_refine import metrics


@pytest.fixture
def logits(rng):
    return rng.normal(0.0, 3.0, size=(5, 200, 4))


@pytest.fixture
def labels(rng):
    return rng.integers(4, size=200)


def test_accuracy_is_that_of_the_averaged_probabilities(logits, labels):
    probs = scipy.special.softmax(logits, axis=-1)
    averaged = probs.mean(axis=0)
    expected = sklearn.metrics.accuracy_score(labels, averaged.argmax(axis=-1))
    assert isinstance(metrics.accuracy(labels, probs), float)
    assert metrics.accuracy(labels, probs) == expected
    assert metrics.accuracy(labels, averaged) == expected
    assert metrics.accuracy(labels, logits, from_logits=True) == expected
    tensor = keras.ops.convert_to_tensor(probs)
    assert metrics.accuracy(labels, tensor) == expected


def test_probabilities_are_averaged_neither_logits_nor_votes():
    # Two timid draws say class 0, a sure one says class 1.
    probs = np.array([[[0.55, 0.45]], [[0.55, 0.45]], [[0.01, 0.99]]])
    assert metrics.accuracy([1], probs) == 1.0
    # The logits of one absurdly sure draw outweigh two, its probability not.
    logits = np.array([[[3.0, 0.0]], [[3.0, 0.0]], [[0.0, 1e4]]])
    assert metrics.accuracy([0], logits, from_logits=True) == 1.0


def test_all_right_and_all_wrong():
    assert metrics.accuracy([0, 1, 2], np.eye(3)) == 1.0
    assert metrics.accuracy([1, 2, 0], np.eye(3)) == 0.0
    assert metrics.accuracy([0, 1, 0], np.eye(3)) == 2.0 / 3.0


@pytest.mark.parametrize("label", [0, 1])
def test_of_equal_probabilities_the_first_counts(label):
    assert metrics.accuracy([label], [[0.5, 0.5]]) == 1.0 - label


def test_labels_may_have_three_shapes(logits, labels):
    expected = metrics.accuracy(labels, logits, from_logits=True)
    for y_true in (labels[:, None], np.eye(4)[labels]):
        assert metrics.accuracy(y_true, logits, from_logits=True) == expected


@pytest.mark.parametrize(
    ("y_true", "probs", "message"),
    [
        ([0], [0.5, 0.5], "`probs` must have 3 axes"),
        ([0, 1], [[0.5, 0.5]], r"N=1 and C=2.*shape \(2,\)"),
        ([2], [[0.5, 0.5]], r"class numbers in \[0, 2\)"),
        ([0], [[3.0, -2.0]], r"probabilities \(or set from_logits=True\)"),
        ([0], [[3.0, 2.0]], r"sum to 1 .*\(or set from_logits=True\)"),
        ([0], [[np.nan, 1.0]], "`probs` must be finite"),
    ],
)
def test_accuracy_rejects(y_true, probs, message):
    with pytest.raises(ValueError, match=message):
        metrics.accuracy(y_true, probs)
