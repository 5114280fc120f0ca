import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf
import tensorflow_probability as tfp

from tests.support import statistics
from tfp_refine import metrics

S, N, C = 5, 400, 4


@pytest.fixture
def logits(rng):
    return rng.normal(0.0, 2.0, size=(S, N, C))


@pytest.fixture
def probs(logits):
    return scipy.special.softmax(logits, axis=-1)


@pytest.fixture
def labels(rng):
    return rng.integers(C, size=N)


def with_confidence(confidence, num_classes=15):
    """Rows with a given probability of class 0, `[N, C]`, the rest even."""
    confidence = np.asarray(confidence, dtype=np.float64)[:, None]
    rest = (1.0 - confidence) / (num_classes - 1)
    return np.hstack([confidence, np.repeat(rest, num_classes - 1, axis=1)])


def bins_by_definition(labels, averaged, num_bins):
    """Collects `(count, gap)` of each bin `(lo, hi]` in a loop."""
    confidence = averaged.max(axis=-1)
    right = averaged.argmax(axis=-1) == labels
    found = []
    for k in range(num_bins):
        low, high = k / num_bins, (k + 1) / num_bins
        inside = (low < confidence) & (confidence <= high)
        if inside.any():
            gap = abs(right[inside].mean() - confidence[inside].mean())
            found.append((inside.sum(), gap))
    return found


@pytest.mark.parametrize("num_bins", [1, 7, 15, 100])
def test_errors_are_those_of_a_loop_over_bins(labels, probs, num_bins):
    found = bins_by_definition(labels, probs.mean(axis=0), num_bins)
    ece = metrics.expected_calibration_error(labels, probs, num_bins)
    mce = metrics.maximum_calibration_error(labels, probs, num_bins)
    assert isinstance(ece, float)
    assert isinstance(mce, float)
    np.testing.assert_allclose(
        ece, sum(count / N * gap for count, gap in found), rtol=1e-12
    )
    np.testing.assert_allclose(mce, max(gap for _, gap in found), rtol=1e-12)


@pytest.mark.parametrize("num_bins", [5, 15])
def test_error_is_that_of_tfp_where_no_confidence_is_on_an_edge(
    labels, logits, num_bins
):
    # TFP's bins are [lo, hi), and it takes no float64.
    single = tf.constant(logits[0], tf.float32)
    expected = tfp.stats.expected_calibration_error(
        num_bins, single, tf.constant(labels, tf.int32)
    )
    ece = metrics.expected_calibration_error(
        labels, single, num_bins, from_logits=True
    )
    np.testing.assert_allclose(ece, expected, rtol=1e-5)


def test_default_is_15_bins(labels, probs):
    assert len(metrics.calibration_bins(labels, probs).counts) == 15
    for error in (
        metrics.expected_calibration_error,
        metrics.maximum_calibration_error,
    ):
        assert error(labels, probs) == error(labels, probs, num_bins=15)
        assert error(labels, probs) != error(labels, probs, num_bins=14)


@pytest.mark.slow
@pytest.mark.parametrize("num_bins", [10, 15, 49])
def test_an_edge_belongs_to_the_bin_below(num_bins):
    last = np.arange(1, num_bins + 1)
    above_chance = last / num_bins >= 1 / 60
    edges = (last / num_bins)[above_chance]
    for confidence, expected in (
        (edges, last - 1),
        (np.nextafter(edges, 0), last - 1),
        (np.nextafter(edges[:-1], 1), last[:-1]),
    ):
        for value, index in zip(confidence, expected, strict=True):
            probs = with_confidence([value], num_classes=60)
            bins = metrics.calibration_bins([0], probs, num_bins)
            assert bins.counts[index] == 1, (value, index)


def test_confidence_of_exactly_one_is_in_the_last_bin():
    bins = metrics.calibration_bins([0, 1, 1], np.eye(2)[[0, 0, 1]], 4)
    np.testing.assert_array_equal(bins.counts, [0, 0, 0, 3])
    np.testing.assert_array_equal(bins.confidence, [np.nan] * 3 + [1.0])
    np.testing.assert_allclose(bins.accuracy[-1], 2 / 3, rtol=1e-12)
    np.testing.assert_array_equal(bins.edges, [0.0, 0.25, 0.5, 0.75, 1.0])


def test_confidence_that_rounding_lifts_above_one_is_in_the_last_bin():
    probs = np.array([[1.0000001, 0.0]])
    bins = metrics.calibration_bins([0], probs, 10)
    np.testing.assert_array_equal(bins.counts, [0] * 9 + [1])
    assert bins.confidence[-1] == 1.0


@pytest.mark.parametrize("confidence", [0.9901, 0.999, 1.0])
@pytest.mark.parametrize("num_bins", [10, 15, 100])
def test_sure_and_wrong_predictions_count(confidence, num_bins):
    # A published ECE of 100 bins loses them all, and scores 0.
    probs = with_confidence([confidence] * 8)
    for error in (
        metrics.expected_calibration_error,
        metrics.maximum_calibration_error,
    ):
        wrong = error([1] * 8, probs, num_bins)
        np.testing.assert_allclose(wrong, confidence, rtol=1e-12)
        right = error([0] * 8, probs, num_bins)
        np.testing.assert_allclose(right, 1 - confidence, atol=1e-12)


def test_no_prediction_is_lost(labels, probs):
    for num_bins in (1, 2, 15, 1000):
        bins = metrics.calibration_bins(labels, probs, num_bins)
        assert bins.counts.sum() == N
        assert len(bins.edges) == num_bins + 1
        averaged = probs.mean(axis=0)
        np.testing.assert_allclose(
            np.nansum(bins.counts * bins.confidence),
            averaged.max(axis=-1).sum(),
            rtol=1e-12,
        )
        np.testing.assert_allclose(
            np.nansum(bins.counts * bins.accuracy) / N,
            metrics.accuracy(labels, probs),
            rtol=1e-12,
        )
        empty = bins.counts == 0
        np.testing.assert_array_equal(np.isnan(bins.accuracy), empty)
        np.testing.assert_array_equal(np.isnan(bins.confidence), empty)


def test_one_bin_gives_the_gap_of_the_means(labels, probs):
    confidence = probs.mean(axis=0).max(axis=-1).mean()
    np.testing.assert_allclose(
        metrics.expected_calibration_error(labels, probs, num_bins=1),
        abs(metrics.accuracy(labels, probs) - confidence),
        rtol=1e-12,
    )


def test_gaps_within_a_bin_cancel_and_between_bins_do_not():
    # Confidence 0.8: half of them right. Confidence 0.6: all right.
    probs = np.array([[0.8, 0.2]] * 4 + [[0.6, 0.4]] * 4)
    labels = [0, 0, 1, 1, 0, 0, 0, 0]
    for num_bins, ece, mce in ((10, 0.35, 0.4), (1, 0.05, 0.05)):
        np.testing.assert_allclose(
            metrics.expected_calibration_error(labels, probs, num_bins), ece
        )
        np.testing.assert_allclose(
            metrics.maximum_calibration_error(labels, probs, num_bins), mce
        )


def test_draws_are_averaged_before_they_are_sorted():
    # Each draw is sure, their average is not: 0.5, right in half the cases.
    draws = np.stack([np.eye(2)[[0, 0]], np.eye(2)[[1, 1]]])
    assert metrics.expected_calibration_error([0, 1], draws) == 0.0


def test_logits_and_tensors_give_the_same(labels, logits, probs):
    expected = metrics.calibration_bins(labels, probs)
    for found in (
        metrics.calibration_bins(labels, logits, from_logits=True),
        metrics.calibration_bins(np.eye(C)[labels], probs.mean(axis=0)),
        metrics.calibration_bins(
            labels, keras.ops.convert_to_tensor(probs, dtype="float64")
        ),
    ):
        assert isinstance(found, metrics.CalibrationBins)
        for left, right in zip(found, expected, strict=True):
            assert isinstance(left, np.ndarray)
            np.testing.assert_allclose(left, right, rtol=1e-12)


@pytest.mark.slow
def test_calibrated_predictor_has_only_the_known_bias(rng):
    num, num_bins, trials = 3000, 15, 400
    confidence = rng.uniform(0.5, 1.0, size=num)
    probs = np.stack([confidence, 1.0 - confidence], axis=-1)
    # Given the confidences, the gaps are nearly N(0, variance) and E|gap| is
    # sqrt(2 / pi) standard deviations.
    index = np.ceil(confidence * num_bins).astype(int)
    sums = np.bincount(index, weights=confidence * (1.0 - confidence))
    bias = np.sqrt(2 / np.pi) * np.sqrt(sums).sum() / num
    errors = [
        metrics.expected_calibration_error(
            rng.uniform(size=num) > confidence, probs, num_bins
        )
        for _ in range(trials)
    ]
    statistics.assert_mean(
        errors, bias, resolves=0.2 * bias, fpr=1e-6, fnr=1e-6
    )


def test_overconfidence_is_seen(rng):
    confidence = rng.uniform(0.6, 1.0, size=20000)
    wrong = rng.uniform(size=20000) > confidence - 0.1
    probs = np.stack([confidence, 1.0 - confidence], axis=-1)
    # All gaps have one sign: bins add no bias to their mean.
    gaps = confidence - ~wrong
    statistics.assert_mean(gaps, 0.1, resolves=0.05)
    np.testing.assert_allclose(
        metrics.expected_calibration_error(wrong, probs), gaps.mean()
    )


@pytest.mark.parametrize("num_bins", [0, -1, 2.0, "15", None, True, [15]])
def test_num_bins_must_be_a_positive_integer(num_bins):
    for function in (
        metrics.calibration_bins,
        metrics.expected_calibration_error,
        metrics.maximum_calibration_error,
    ):
        with pytest.raises(ValueError, match="`num_bins` must be a positive"):
            function([0], [[0.5, 0.5]], num_bins)


def test_num_bins_may_be_a_numpy_integer():
    bins = metrics.calibration_bins([0], [[0.5, 0.5]], np.int64(3))
    np.testing.assert_array_equal(bins.counts, [0, 1, 0])
