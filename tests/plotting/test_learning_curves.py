import numpy as np
import pytest

from tfp_refine import plotting


def curves(axes):
    return {
        line.get_label(): (
            line.get_xdata().tolist(),
            np.nan_to_num(line.get_ydata(), nan=-1.0).tolist(),
        )
        for line in axes.lines
    }


def test_validation_joins_the_panel_of_its_metric(tmp_path):
    history = {
        "accuracy": [0.5, 0.7],
        "kl": [1.0, 2.0, 3.0],
        "val_accuracy": [0.4, np.nan],
        "val_nll": [0.3, np.inf, 0.2],
    }
    figure = plotting.learning_curves(history, x_label="step")
    assert [axes.get_title() for axes in figure.axes] == [
        "accuracy",
        "kl",
        "nll",
    ]
    accuracy, kl, nll = figure.axes
    assert curves(accuracy) == {
        "training": ([1, 2], [0.5, 0.7]),
        "validation": ([1, 2], [0.4, -1.0]),
    }
    assert curves(kl) == {"training": ([1, 2, 3], [1.0, 2.0, 3.0])}
    assert curves(nll) == {"validation": ([1, 2, 3], [0.3, -1.0, 0.2])}
    named = [axes.get_legend() is not None for axes in figure.axes]
    assert named == [True, False, True]
    assert {axes.get_xlabel() for axes in figure.axes} == {"step"}
    figure.savefig(tmp_path / "figure.png")


@pytest.mark.parametrize("num", [1, 2, 3, 4, 5, 7])
def test_each_metric_has_a_panel_and_no_panel_is_empty(num, tmp_path):
    history = {f"metric_{index}": [1.0, 0.5] for index in range(num)}
    figure = plotting.learning_curves(history)
    assert [axes.get_title() for axes in figure.axes] == list(history)
    assert all(axes.lines for axes in figure.axes)
    figure.savefig(tmp_path / "figure.png")


def test_short_curves_have_dots_and_a_single_epoch_is_seen():
    for length, marker in ((1, "o"), (3, "o"), (500, "None")):
        figure = plotting.learning_curves({"nll": np.zeros(length)})
        assert figure.axes[0].lines[0].get_marker() == marker


@pytest.mark.parametrize("bad", [{}, {"nll": []}, {"nll": [1.0], "kl": []}])
def test_nothing_to_show_is_refused(bad):
    with pytest.raises(ValueError, match="`history` must hold metrics"):
        plotting.learning_curves(bad)
