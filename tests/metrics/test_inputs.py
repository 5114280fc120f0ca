import numpy as np
import pytest

from tfp_refine import metrics

OF_LABELS = [
    metrics.accuracy,
    metrics.brier_score,
    metrics.calibration_bins,
    metrics.expected_calibration_error,
    metrics.maximum_calibration_error,
    metrics.negative_log_likelihood,
]
OF_PREDICTIONS = [metrics.confidence, metrics.predictive_entropy]
OF_DRAWS = [metrics.expected_entropy, metrics.mutual_information]

EVEN = np.full((2, 3, 4), 0.25)


@pytest.mark.parametrize(
    "metric", [*OF_LABELS, *OF_PREDICTIONS, *OF_DRAWS], ids=lambda m: m.__name__
)
@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (np.full(4, 0.25), r"must have 3 axes.*\(4,\)"),
        (np.ones((1, 2, 3, 4)), r"must have 3 axes.*\(1, 2, 3, 4\)"),
        (np.ones((2, 3, 1)), r"at least 2 classes.*\(2, 3, 1\)"),
        (np.zeros((2, 0, 4)), r"must not be empty.*\(2, 0, 4\)"),
        (np.zeros((0, 3, 4)), r"must not be empty.*\(0, 3, 4\)"),
        (EVEN * np.nan, "must be finite"),
        (EVEN + 1j, "`(probs|draws)` must be an array of numbers.*complex"),
        ("even", "`(probs|draws)` must be an array of numbers.*str"),
        (None, "`(probs|draws)` must be an array of numbers.*None"),
        ([EVEN, [0.5]], "`(probs|draws)` must be an array of numbers.*list"),
        (EVEN * 1.01, "sum to 1 .*from 1.01 to 1.01"),
        (EVEN - [0.5, 0, 0, -0.5], r"probabilities \(or set .*: -0.25"),
    ],
)
def test_predictions_are_refused(metric, draws, message):
    labels = ([0, 1, 2],) if metric in OF_LABELS else ()
    with pytest.raises(ValueError, match=message):
        metric(*labels, draws)


@pytest.mark.parametrize("metric", OF_LABELS, ids=lambda m: m.__name__)
@pytest.mark.parametrize(
    ("y_true", "message"),
    [
        ([0, 1], r"N=3 and C=4.*Received: shape \(2,\)"),
        ([0, 1, 4], r"class numbers in \[0, 4\).*from 0 to 4"),
        ([0, 1, 0.5], "whole class numbers"),
        (np.full((3, 4), 0.25), "one-hot rows"),
    ],
)
def test_labels_are_refused(metric, y_true, message):
    with pytest.raises(ValueError, match=message):
        metric(y_true, EVEN)


@pytest.mark.parametrize(
    "values",
    [
        ["1", "0"],
        np.array(["1", "0"]),
        np.array(["1", 0], object),
        np.array([b"1", b"0"]),
        np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"),
        np.array([1j, 0]),
    ],
    ids=str,
)
def test_what_is_no_number_is_refused(values):
    with pytest.raises(ValueError, match="`in_scores` must be an array of num"):
        metrics.auroc(values, [0.5, 0.7])


@pytest.mark.parametrize(
    "values", [np.array([1, 0.5], object), [True, False], (1, 0)], ids=str
)
def test_numbers_of_any_kind_are_taken(values):
    assert metrics.auroc(values, [0.5, 0.7]) >= 0.0
