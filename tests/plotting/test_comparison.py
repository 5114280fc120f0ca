import itertools

import numpy as np
import pytest

from tfp_refine import plotting

SCORES = {"worst": [3.0, 5.0], "best": [1.0], "middle": [2.0, 2.5, 3.0]}
CURVES = {
    "MF-VI": {"removed": [0, 5, 10], "nll": [0.3, 0.3, 0.5], "pruned": 6},
    "CM": {"removed": [0, 5, 10], "nll": [0.1, 0.4, 0.9], "pruned": 1},
}


def lines_of(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def texts_of(axes):
    return [text.get_text() for text in axes.texts]


def test_the_lowest_mean_is_at_the_top():
    axes = plotting.ranking(SCORES, "NLL (nats)")
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["best", "middle", "worst"]
    low, high = axes.get_ylim()
    assert low > high  # the first row is the highest
    assert axes.get_xlabel() == "NLL (nats); lower is better"


def test_points_are_means_with_standard_deviations():
    axes = plotting.ranking(SCORES, "NLL")
    means, spreads = [], []
    for container in axes.containers:
        points, _, (bars,) = container
        means.append(points.get_xdata()[0])
        (segment,) = bars.get_segments()
        spreads.append((segment[1, 0] - segment[0, 0]) / 2.0)
    np.testing.assert_allclose(means, [1.0, 2.5, 4.0])
    np.testing.assert_allclose(spreads, [0.0, 0.5, np.sqrt(2.0)])
    low, high = axes.get_xlim()
    assert low < 1.0
    assert high > 4.0 + np.sqrt(2.0)
    assert not any(texts_of(axes))


def test_names_of_several_lines_do_not_overlap():
    scores = {f"a\nb\nc {number}": [number, 2.0] for number in range(5)}
    axes = plotting.ranking(scores | {"short": [0.5]}, "NLL")
    axes.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    for above, below in itertools.pairwise(boxes):
        assert above.y0 > below.y1
    rows = [
        line.get_ydata()[0] for line in axes.lines if line.get_marker() == "."
    ]
    np.testing.assert_array_equal(axes.get_yticks(), rows)


def test_outliers_crush_no_others_and_their_scores_are_written():
    scores = {f"good {i}": [i / 50, i / 50 + 0.01] for i in range(12)}
    unlucky = {"unlucky": [0.2, 0.21, 7.5]}
    diverged = {"diverged": [90.0, 1e4], "many": np.linspace(50.0, 60.0, 5)}
    axes = plotting.ranking(scores | unlucky | diverged, "NLL (nats)")
    low, high = axes.get_xlim()
    assert -0.1 < low < 0.0
    assert 0.23 < high < 0.3
    expected = ["→ 7.5", "→ 50 to 60", "→ 90 to 1e+04"]
    assert texts_of(axes) == [""] * 12 + expected
    assert [text.get_position()[1] for text in axes.texts] == [*range(15)]


def test_runs_farther_apart_than_means_are_shown():
    # Fails where the means alone tell how far scores may lie.
    axes = plotting.ranking({"a": [0.5, 0.6], "b": [0.51, 0.61]}, "NLL")
    low, high = axes.get_xlim()
    assert low < 0.5
    assert high > 0.61
    assert not any(texts_of(axes))


def test_the_best_is_on_the_axis_however_far_from_the_others():
    axes = plotting.ranking({"a": [1.0], "b": [1.1], "c": [-9.0]}, "NLL")
    low, high = axes.get_xlim()
    assert low < -9.0
    assert high > 1.1
    assert not any(texts_of(axes))


def test_scores_must_be_finite():
    with pytest.raises(
        ValueError, match=r"`scores\['a'\]` must.*finite.*nan\]"
    ):
        plotting.ranking({"a": [1.0, np.nan]}, "NLL")


def test_means_and_standard_errors_over_splits_are_drawn():
    values = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 8.0]])
    axes = plotting.depth_sweep(
        {"CM": {"depth": [1, 4], "values": values}}, "MLL (nats)"
    )
    (container,) = axes.containers
    line, _, (bars,) = container.lines
    np.testing.assert_array_equal(line.get_xdata(), [1, 4])
    np.testing.assert_allclose(line.get_ydata(), [2.0, 4.0])
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    error = np.array([1.0, 3.4641016]) / np.sqrt(3.0)
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 2 * error, rtol=1e-6)
    assert axes.get_ylabel() == "MLL (nats)"
    assert axes.get_xticks().tolist() == [1, 4]


def test_a_single_split_has_no_bars():
    axes = plotting.depth_sweep(
        {"CM": {"depth": [1, 2], "values": [[1.0], [2.0]]}}, "MLL"
    )
    (container,) = axes.containers
    assert container.lines[2] == ()


def test_flow_lengths_have_a_panel_a_metric_and_lines_of_others():
    curve = {"length": [1, 5], "mmd": [0.1, 0.01], "seconds": [2.0, 3.0]}
    mmd, seconds = plotting.flow_length(
        {"refined": curve}, {"NUTS": {"mmd": 0.004}, "Laplace": {"seconds": 1}}
    )
    np.testing.assert_allclose(
        lines_of(mmd)["refined"].get_xydata(), [[1, 0.1], [5, 0.01]]
    )
    assert (mmd.get_yscale(), seconds.get_yscale()) == ("log", "linear")
    assert set(lines_of(mmd)["NUTS"].get_ydata()) == {0.004}
    for axes, name in ((mmd, "Laplace"), (seconds, "NUTS")):
        assert np.all(np.isnan(lines_of(axes)[name].get_ydata()))
    np.testing.assert_allclose(
        lines_of(seconds)["refined"].get_ydata(), [2.0, 3.0]
    )
    assert seconds.get_ylabel() == "time (seconds)\nlower is better"


def test_shifts_have_a_column_each_and_metrics_a_row():
    curve = {"strength": [15, 30], "nll": [0.5, 1.0], "ece": [0.1, 0.2]}
    other = {"strength": [1, 2, 3], "nll": [0.5, 1.0, 2.0], "ece": [0, 0, 1]}
    panels = plotting.shift_curves(
        {"rotation": {"A": curve}, "fog": {"A": other, "B": other}}
    )
    assert panels.shape == (2, 2)
    (first, second), (third, fourth) = panels
    assert first.get_title(loc="left") == "rotation"
    assert second.get_title(loc="left") == "fog"
    np.testing.assert_allclose(lines_of(first)["A"].get_ydata(), [0.5, 1.0])
    np.testing.assert_allclose(lines_of(third)["A"].get_ydata(), [0.1, 0.2])
    np.testing.assert_allclose(
        lines_of(fourth)["B"].get_xydata(), [[1, 0], [2, 0], [3, 1]]
    )
    assert first.get_ylabel() == "NLL (nats per example)\nlower is better"
    assert third.get_xlabel() == "rotation (degrees)"
    assert fourth.get_xlabel() == "strength (severity, 1 to 5)"


def test_attack_curves_show_accuracy_and_entropy():
    curve = {"epsilon": [0.0, 0.1], "accuracy": [0.9, 0.4], "entropy": [0, 1]}
    accuracy, entropy = plotting.attack_curves({"A": curve}, "strength")
    for axes, metric in ((accuracy, "accuracy"), (entropy, "entropy")):
        line = lines_of(axes)["A"]
        np.testing.assert_allclose(line.get_xdata(), curve["epsilon"])
        np.testing.assert_allclose(line.get_ydata(), curve[metric])
    assert "nats" in entropy.get_ylabel()
    assert accuracy.get_xlabel() == entropy.get_xlabel() == "strength"


def test_pruning_curves_and_their_pruned_units_are_drawn():
    axes = plotting.pruning_curve(CURVES)
    for curve, drawn, mark in zip(
        CURVES.values(), axes.lines[:2], axes.lines[2:], strict=True
    ):
        np.testing.assert_array_equal(drawn.get_xdata(), curve["removed"])
        np.testing.assert_array_equal(drawn.get_ydata(), curve["nll"])
        assert set(mark.get_xdata()) == {curve["pruned"]}
        assert drawn.get_color() == mark.get_color()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[:2] == list(CURVES)
