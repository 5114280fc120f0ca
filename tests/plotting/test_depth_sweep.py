import numpy as np
import pytest

from tfp_refine import plotting


def test_means_and_standard_errors_over_splits_are_drawn(tmp_path):
    values = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 8.0]])
    figure = plotting.depth_sweep(
        {"CM": {"depth": [1, 4], "values": values}}, "MLL (nats)"
    )
    (axes,) = figure.axes
    (container,) = axes.containers
    line, _, (bars,) = container.lines
    np.testing.assert_array_equal(line.get_xdata(), [1, 4])
    np.testing.assert_allclose(line.get_ydata(), [2.0, 4.0])
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    error = np.array([1.0, 3.4641016]) / np.sqrt(3.0)
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 2 * error, rtol=1e-6)
    assert axes.get_ylabel() == "MLL (nats)"
    assert axes.get_xticks().tolist() == [1, 4]
    figure.savefig(tmp_path / "figure.png")


def test_a_single_split_has_no_bars():
    figure = plotting.depth_sweep(
        {"CM": {"depth": [1, 2], "values": [[1.0], [2.0]]}}, "MLL"
    )
    (container,) = figure.axes[0].containers
    assert container.lines[2] == ()


def test_no_curves_are_refused():
    with pytest.raises(ValueError, match="`curves` must not be empty"):
        plotting.depth_sweep({}, "MLL")
