import numpy as np
import pytest

from tfp_refine import plotting

LABELS = {"error": "test error", "mnll": "test MNLL"}


def curves(axes):
    return {
        line.get_label(): (
            list(line.get_xdata()),
            np.nan_to_num(line.get_ydata(), nan=-1.0).tolist(),
        )
        for line in axes.lines
    }


def run(offset):
    steps = np.array([0, 10, 20, 30])
    return {"step": steps, "error": offset + 1.0 / (1 + steps),
            "mnll": offset - steps}  # fmt: skip


def test_validation_joins_the_panel_of_its_metric():
    history = {
        "accuracy": [0.5, 0.7],
        "kl": [1.0, 2.0, 3.0],
        "val_accuracy": [0.4, np.nan],
        "val_nll": [0.3, np.inf, 0.2],
    }
    panels = plotting.learning_curves(history, x_label="step")
    accuracy, kl, nll = panels
    assert curves(accuracy) == {
        "training": ([1, 2], [0.5, 0.7]),
        "validation": ([1, 2], [0.4, -1.0]),
    }
    assert curves(kl) == {"training": ([1, 2, 3], [1.0, 2.0, 3.0])}
    assert curves(nll) == {"validation": ([1, 2, 3], [0.3, -1.0, 0.2])}
    named = [axes.get_legend() is not None for axes in panels]
    assert named == [True, False, True]
    assert {axes.get_xlabel() for axes in panels} == {"step"}
    assert kl.get_ylabel() == "KL to the prior (nats)"
    assert nll.get_ylabel() == "NLL (nats per example)\nlower is better"


@pytest.mark.parametrize("num", [1, 2, 3, 4, 5, 7])
def test_each_metric_has_a_panel_and_no_panel_is_empty(num):
    history = {f"metric_{index}": [1.0, 0.5] for index in range(num)}
    panels = plotting.learning_curves(history)
    assert [a.get_title(loc="left") for a in panels] == list(history)
    assert panels[0].figure.axes == list(panels)
    assert all(axes.lines for axes in panels)


def test_a_single_epoch_is_seen_and_long_curves_have_few_markers():
    for length, every in ((1, 1), (3, 1), (500, 50)):
        (axes,) = plotting.learning_curves({"nll": np.zeros(length)})
        assert axes.lines[0].get_marker() == "o"
        assert axes.lines[0].get_markevery() == every


def test_lines_are_medians_over_the_runs():
    runs = [run(0.0), run(1.0), run(5.0)]
    panels = plotting.convergence({"a": runs, "b": [run(2.0)]}, LABELS)
    for axes, (metric, label) in zip(panels, LABELS.items(), strict=True):
        first, second = axes.lines
        np.testing.assert_array_equal(first.get_ydata(), runs[1][metric])
        np.testing.assert_array_equal(second.get_ydata(), run(2.0)[metric])
        assert axes.get_ylabel() == label
        low, high = axes.get_ylim()
        assert low < runs[0][metric][-1]
        assert high > runs[1][metric][-1]
    labels = [text.get_text() for text in panels[-1].get_legend().texts]
    assert labels == ["a", "b"]


def test_runs_that_diverged_leave_gaps():
    broken = run(0.0)
    broken["mnll"] = np.array([np.inf, np.nan, 3.0, 2.0])
    panels = plotting.convergence({"a": [broken]}, LABELS)
    np.testing.assert_array_equal(
        panels[1].lines[0].get_ydata(), [np.nan, np.nan, 3.0, 2.0]
    )
    assert np.all(np.isfinite(panels[1].get_ylim()))


@pytest.mark.parametrize(
    ("every", "last", "log_steps", "scale", "ticks"),
    [
        (100, 400, True, "linear", ["100", "200", "300"]),
        (200, 2000, True, "symlog", ["0", "200", "500", "1000", "2000"]),
        (200, 2000, False, "linear", ["500", "1000", "1500"]),
        (1, 200, True, "symlog", ["$\\mathdefault{10^{1}}$"]),
    ],
)
def test_steps_have_ticks_on_either_scale(every, last, log_steps, scale, ticks):
    steps = np.arange(0, last + 1, every)
    runs = [{"step": steps, "mnll": np.sqrt(steps)}]
    (axes,) = plotting.convergence({"a": runs}, {"mnll": "MNLL"}, log_steps)
    axes.figure.draw_without_rendering()
    assert axes.get_xscale() == scale
    shown = [text.get_text() for text in axes.get_xticklabels()]
    assert {*ticks} <= {*shown}


def test_first_values_are_seen_unless_they_hide_all_others():
    for first, seen in ((2.5, True), (30.0, False)):
        runs = [{"step": [0, 1, 2], "mnll": [first, 2.0, 1.0]}]
        (axes,) = plotting.convergence({"a": runs}, {"mnll": "MNLL"})
        assert (axes.get_ylim()[1] > first) == seen
        assert axes.get_xlim()[0] < 0.0  # the marker, too


def test_memorization_shows_both_sets_and_chance():
    curve = {
        "step": [5, 10],
        "train_accuracy": [0.2, 1.0],
        "test_accuracy": [0.1, 0.2],
    }
    train, test = plotting.memorization({"A": curve}, chance=0.1)
    assert curves(train) == {
        "A": ([5, 10], [0.2, 1.0]),
        "chance": ([0, 1], [0.1, 0.1]),
    }
    assert curves(test)["A"] == ([5, 10], [0.1, 0.2])


@pytest.mark.parametrize("members", [1, 3])
def test_staircase_shows_all_members_and_the_mean_field_bound(members):
    axes = plotting.elbo_staircase(
        {
            "steps": [1, 3],
            "trace_step": [1, 2, 3, 4],
            "trace_elbo": np.tile([-9.0, -7.0, -6.0, -5.0], (members, 1)),
            "elbo_init": [-8.0] * members,
            "elbo_aux": np.tile([-7.0, -5.0], (members, 1)),
        }
    )
    lines = curves(axes)
    assert lines["mean-field VI"][1] == [-8.0, -8.0]
    assert lines["mean of members"] == ([1, 2, 3, 4], [-9.0, -7.0, -6.0, -5.0])
    (evaluation,) = axes.containers
    np.testing.assert_allclose(
        evaluation.lines[0].get_xydata(), [[1.0, -7.0], [4.0, -5.0]]
    )
    low, high = axes.get_ylim()
    assert low < -8.0 < -5.0 < high
