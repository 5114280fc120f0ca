import numpy as np
import pytest

from tfp_refine import plotting

LABELS = {"error": "test error", "mnll": "test MNLL"}


def run(offset):
    steps = np.array([0, 10, 20, 30])
    return {"step": steps, "error": offset + 1.0 / (1 + steps),
            "mnll": offset - steps}  # fmt: skip


def test_lines_are_medians_over_the_runs(tmp_path):
    runs = [run(0.0), run(1.0), run(5.0)]
    figure = plotting.convergence({"a": runs, "b": [run(2.0)]}, LABELS)
    for axes, (metric, label) in zip(figure.axes, LABELS.items(), strict=True):
        first, second = axes.lines
        np.testing.assert_array_equal(first.get_ydata(), runs[1][metric])
        np.testing.assert_array_equal(second.get_ydata(), run(2.0)[metric])
        assert axes.get_ylabel() == label
        low, high = axes.get_ylim()
        assert low < runs[0][metric][-1]
        assert high > runs[1][metric][-1]
    labels = [text.get_text() for text in figure.legends[0].texts]
    assert labels == ["a", "b"]
    figure.savefig(tmp_path / "figure.png")


def test_runs_that_diverged_leave_gaps(tmp_path):
    broken = run(0.0)
    broken["mnll"] = np.array([np.inf, np.nan, 3.0, 2.0])
    figure = plotting.convergence({"a": [broken]}, LABELS)
    assert np.all(np.isfinite(figure.axes[1].get_ylim()))
    figure.savefig(tmp_path / "figure.png")


@pytest.mark.parametrize("curves", [{}, {"a": []}])
def test_there_must_be_runs(curves):
    with pytest.raises(ValueError, match="a run at least"):
        plotting.convergence(curves, LABELS)


def test_steps_may_be_linear():
    scales = [
        plotting.convergence({"a": [run(0.0)]}, LABELS, log_steps=log_steps)
        .axes[0]
        .get_xscale()
        for log_steps in (True, False)
    ]
    assert scales == ["symlog", "linear"]
