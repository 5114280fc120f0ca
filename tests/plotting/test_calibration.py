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


def labels_of(panels):
    return [text.get_text() for text in panels[0].get_legend().texts]


def test_points_are_the_bins_that_hold_predictions(bins):
    gaps, shares = plotting.reliability_diagram(predictors(bins))
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
    assert shares.get_xlabel() == "confidence (probability)"
    assert gaps.get_ylabel() == "accuracy (fraction)"


def test_histogram_holds_all_predictions(bins):
    _, shares = plotting.reliability_diagram(predictors(bins))
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
    gaps, _ = plotting.reliability_diagram({"a": arrays})
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
        ({"a": ([1], [1.0], [1.0], [0.0])}, r"'a' with shapes \[\(1,\),"),
        ({"a": ([1, 2], [1.0], [1.0], [0.0, 1.0])}, "one more edge"),
        ({"a": ([1], [1.0], [0.0, 1.0])}, "one more edge"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        plotting.reliability_diagram(bad)


@pytest.fixture
def entropies(rng):
    return {
        name: {
            "MNIST": rng.exponential(0.1, size=500),
            "notMNIST": rng.uniform(0.0, most, size=200),
            "noise": np.full(100, most),
        }
        for name, most in (("VI", 1.0), ("refined VI", 2.0))
    }


def test_histograms_hold_all_examples_as_fractions(entropies):
    panels = plotting.entropy_histogram(entropies, num_bins=20)
    most = max(v.max() for sets in entropies.values() for v in sets.values())
    for axes, sets in zip(panels, entropies.values(), strict=True):
        for steps, values in zip(axes.patches, sets.values(), strict=True):
            fractions, edges, _ = steps.get_data()
            assert len(fractions) == 20
            np.testing.assert_allclose(fractions.sum(), 1.0)
            np.testing.assert_allclose(
                fractions[0], np.mean(values < edges[1]), rtol=1e-12
            )
            assert (edges[0], edges[-1]) == (0.0, most)
        # Only the first data set is known.
        filled = [steps.get_fill() for steps in axes.patches]
        assert filled == [True, False, False]


def test_histograms_and_data_sets_are_named(entropies):
    panels = plotting.entropy_histogram(entropies)
    titles = [axes.get_title(loc="left") for axes in panels]
    assert titles == ["VI", "refined VI"]
    assert [t.get_text() for t in panels[1].get_legend().texts] == [
        f"{name}, mean {values.mean():.2f}"
        for name, values in entropies["refined VI"].items()
    ]
    assert panels[-1].get_xlabel() == "predictive entropy (nats)"


def test_entropies_that_are_all_zero_are_in_the_first_bin():
    (axes,) = plotting.entropy_histogram({"sure": {"in": np.zeros(4)}}, 10)
    fractions, _, _ = axes.patches[0].get_data()
    np.testing.assert_array_equal(fractions, [1.0] + [0.0] * 9)


def test_entropy_cdf_has_a_panel_a_set_and_a_curve_a_predictor():
    known, unseen = plotting.entropy_cdf(
        {
            "known": {"A": [0.0, 0.5, 0.1, 0.2], "B": [1.0]},
            "unseen": {"A": [2.0, 1.0], "B": [1.5]},
        }
    )
    titles = [a.get_legend().get_title().get_text() for a in (known, unseen)]
    assert titles == ["known", "unseen"]
    assert known.get_xlim() == unseen.get_xlim() == (0.0, 2.0)
    line = {line.get_label(): line for line in known.lines}["A, mean 0.20"]
    np.testing.assert_allclose(line.get_xdata()[1:], [0.0, 0.1, 0.2, 0.5])
    np.testing.assert_allclose(line.get_ydata()[1:], [0.25, 0.5, 0.75, 1.0])
    labels = {line.get_label() for line in unseen.lines}
    assert labels == {"A, mean 1.50", "B, mean 1.50"}


def test_integration_errors_fall_with_the_draws():
    probit, mc = np.full((3, 2), 0.01), np.array([[0.5, 0.1]] * 3)
    _, monte_carlo, axes = plotting.integration_errors(
        [0.0, 1.0, 2.0], [0.0, 1.0], probit, mc, num_samples=25
    )
    assert monte_carlo.get_title(loc="left") == "Monte Carlo, 25 draws"
    colors = monte_carlo.collections[0].get_array()
    np.testing.assert_allclose(colors, [[0.1] * 3, [0.02] * 3])
    curves = {line.get_label(): line for line in axes.lines}
    worst = curves["Monte Carlo, worst"]
    np.testing.assert_allclose(
        worst.get_ydata(), 0.5 / np.sqrt(worst.get_xdata())
    )
    np.testing.assert_allclose(
        curves["Monte Carlo, mean"].get_ydata()[0], 0.3, rtol=1e-6
    )
    assert set(curves["probit, mean"].get_ydata()) == {0.01}
