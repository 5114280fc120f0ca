"""Figures of the uncertainty experiment show the numbers they are given."""

import numpy as np
import pytest

from tfp_refine import plotting


def lines_of(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def assert_line(line, x, y):
    np.testing.assert_allclose(line.get_xdata(), x)
    np.testing.assert_allclose(line.get_ydata(), y)


def test_entropy_cdf_has_a_panel_a_set_and_a_curve_a_predictor(tmp_path):
    figure = plotting.entropy_cdf(
        {
            "known": {"A": [0.0, 0.5, 0.1, 0.2], "B": [1.0]},
            "unseen": {"A": [2.0, 1.0], "B": [1.5]},
        }
    )
    known, unseen = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "known",
        "unseen",
    ]
    assert known.get_xlim() == unseen.get_xlim() == (0.0, 2.0)
    line = lines_of(known)["A, mean 0.20"]
    np.testing.assert_allclose(line.get_xdata()[1:], [0.0, 0.1, 0.2, 0.5])
    np.testing.assert_allclose(line.get_ydata()[1:], [0.25, 0.5, 0.75, 1.0])
    assert set(lines_of(unseen)) == {"A, mean 1.50", "B, mean 1.50"}
    figure.savefig(tmp_path / "figure.png")


def test_attack_curves_show_accuracy_and_entropy(tmp_path):
    curve = {"epsilon": [0.0, 0.1], "accuracy": [0.9, 0.4], "entropy": [0, 1]}
    figure = plotting.attack_curves({"A": curve}, "strength")
    accuracy, entropy = figure.axes
    assert_line(lines_of(accuracy)["A"], [0.0, 0.1], [0.9, 0.4])
    assert_line(lines_of(entropy)["A"], [0.0, 0.1], [0.0, 1.0])
    assert "nats" in entropy.get_ylabel()
    assert accuracy.get_xlabel() == entropy.get_xlabel() == "strength"
    figure.savefig(tmp_path / "figure.png")


def test_memorization_shows_both_sets_and_chance(tmp_path):
    curve = {
        "step": [5, 10],
        "train_accuracy": [0.2, 1.0],
        "test_accuracy": [0.1, 0.2],
    }
    figure = plotting.memorization({"A": curve}, chance=0.1)
    train, test = figure.axes
    assert_line(lines_of(train)["A"], [5, 10], [0.2, 1.0])
    assert_line(lines_of(test)["A"], [5, 10], [0.1, 0.2])
    for axes in figure.axes:
        assert set(lines_of(axes)["chance"].get_ydata()) == {0.1}
    figure.savefig(tmp_path / "figure.png")


def test_predictive_bands_reach_three_standard_deviations(tmp_path):
    x = np.array([-1.0, 0.0, 2.0])
    predictor = {"mean": [1.0, 2.0, 3.0], "scale": [0.5, 1.0, 2.0]}
    figure = plotting.predictive_bands(
        x, {"A": predictor, "B": predictor}, (x, x), truth=x
    )
    assert len(figure.axes) == 2
    axes = figure.axes[0]
    assert_line(lines_of(axes)["mean"], x, [1.0, 2.0, 3.0])
    assert_line(lines_of(axes)["truth"], x, x)
    assert_line(lines_of(axes)["data"], x, x)
    bands = [b.get_paths()[0].vertices for b in axes.collections]
    assert len(bands) == 3
    at_end = [band[band[:, 0] == 2.0][:, 1] for band in bands]
    assert [(v.min(), v.max()) for v in at_end] == [
        (1.0, 5.0),
        (-1.0, 7.0),
        (-3.0, 9.0),
    ]
    figure.savefig(tmp_path / "figure.png")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plotting.entropy_cdf({}),
        lambda: plotting.entropy_cdf({"known": {}}),
        lambda: plotting.entropy_cdf({"known": {"A": []}}),
        lambda: plotting.attack_curves({}),
        lambda: plotting.memorization({}, 0.1),
        lambda: plotting.predictive_bands([0.0, 1.0], {}),
    ],
)
def test_nothing_to_draw_is_refused(draw):
    with pytest.raises(ValueError, match="Received: "):
        draw()
