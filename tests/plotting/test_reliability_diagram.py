import json

import numpy as np
import pytest
import scipy.stats

from tfp_refine import metrics
from tfp_refine import plotting


@pytest.fixture
def bins(rng):
    """Two predictors, with empty bins and different numbers of bins."""
    found = {}
    for name, num_bins in (("VI", 15), ("refined VI", 10)):
        first = rng.uniform(size=300)
        probs = np.stack([first, 1.0 - first], axis=-1)
        labels = rng.uniform(size=300) > first**2
        found[name] = metrics.calibration_bins(labels, probs, num_bins)
        found[f"{name} ECE"] = metrics.expected_calibration_error(
            labels, probs, num_bins
        )
    return found


def predictors(bins):
    return {name: bins[name] for name in ("VI", "refined VI")}


def labels_of(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.texts]


def test_points_are_the_bins_that_hold_predictions(bins, tmp_path):
    figure = plotting.reliability_diagram(predictors(bins))
    gaps, shares = figure.axes
    np.testing.assert_array_equal(gaps.lines[0].get_xydata(), [[0, 0], [1, 1]])
    for name, container in zip(
        ("VI", "refined VI"), gaps.containers, strict=True
    ):
        used = bins[name].counts > 0
        assert 0 < used.sum() < len(used)
        line = container.lines[0]
        np.testing.assert_array_equal(
            line.get_xdata(), bins[name].confidence[used]
        )
        np.testing.assert_array_equal(
            line.get_ydata(), bins[name].accuracy[used]
        )
    assert gaps.get_xlabel() == ""
    assert (shares.get_xlabel(), gaps.get_ylabel()) == (
        "confidence",
        "accuracy",
    )
    figure.savefig(tmp_path / "figure.png")


def test_histogram_holds_all_predictions(bins):
    _, shares = plotting.reliability_diagram(predictors(bins)).axes
    for name, steps in zip(("VI", "refined VI"), shares.patches, strict=True):
        fractions, edges, _ = steps.get_data()
        np.testing.assert_allclose(fractions, bins[name].counts / 300)
        np.testing.assert_array_equal(edges, bins[name].edges)


def test_legend_tells_the_expected_calibration_error(bins):
    labels = labels_of(plotting.reliability_diagram(predictors(bins)))
    assert labels == [
        "calibrated",
        f"VI (ECE {100 * bins['VI ECE']:.2f}%)",
        f"refined VI (ECE {100 * bins['refined VI ECE']:.2f}%)",
    ]


def test_bars_are_intervals_of_the_accuracy():
    edges = np.linspace(0.0, 1.0, 4)
    counts, hits = np.array([4, 50, 9]), np.array([0, 30, 9])
    arrays = (counts, hits / counts, [0.2, 0.5, 0.9], edges)
    gaps, _ = plotting.reliability_diagram({"a": arrays}).axes
    bars = gaps.containers[0].lines[2][0].get_segments()
    for segment, count, hit in zip(bars, counts, hits, strict=True):
        expected = scipy.stats.binomtest(int(hit), int(count)).proportion_ci(
            method="wilson"
        )
        np.testing.assert_allclose(segment[:, 1], expected, atol=1e-4)


def test_a_record_of_plain_lists_gives_the_same_figure(bins):
    expected = predictors(bins)
    record = json.loads(
        json.dumps(
            {
                name: [
                    np.where(np.isnan(array), None, array).tolist()
                    for array in arrays
                ]
                for name, arrays in expected.items()
            }
        )
    )
    assert None in record["VI"][1]
    assert labels_of(plotting.reliability_diagram(record)) == labels_of(
        plotting.reliability_diagram(expected)
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({}, "at least one predictor"),
        ({"a": ([1], [1.0], [1.0], [0.0])}, r"'a' with shapes \[\(1,\),"),
        ({"a": ([1, 2], [1.0], [1.0], [0.0, 1.0])}, "one more edge"),
        ({"a": ([1], [1.0], [0.0, 1.0])}, "one more edge"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        plotting.reliability_diagram(bad)
