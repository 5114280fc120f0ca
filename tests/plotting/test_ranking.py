import numpy as np
import pytest

from tfp_refine import plotting

SCORES = {"worst": [3.0, 5.0], "best": [1.0], "middle": [2.0, 2.5, 3.0]}


def test_the_lowest_mean_is_at_the_top():
    (axes,) = plotting.ranking(SCORES, "NLL").axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["best", "middle", "worst"]
    low, high = axes.get_ylim()
    assert low > high  # the first row is the highest
    assert axes.get_xlabel() == "NLL"


def test_points_are_means_with_standard_deviations():
    (axes,) = plotting.ranking(SCORES, "NLL").axes
    means, spreads = [], []
    for container in axes.containers:
        points, _, (bars,) = container
        means.append(points.get_xdata()[0])
        (segment,) = bars.get_segments()
        spreads.append((segment[1, 0] - segment[0, 0]) / 2.0)
    np.testing.assert_allclose(means, [1.0, 2.5, 4.0])
    np.testing.assert_allclose(spreads, [0.0, 0.5, np.sqrt(2.0)])


@pytest.mark.parametrize(
    "scores", [{}, {"a": []}, {"a": [1.0, np.nan]}], ids=str
)
def test_bad_scores(scores):
    with pytest.raises(ValueError, match="`scores` must"):
        plotting.ranking(scores, "NLL")
