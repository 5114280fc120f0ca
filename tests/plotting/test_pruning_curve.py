import numpy as np
import pytest

from tfp_refine import plotting

CURVES = {
    "MF-VI": {"removed": [0, 5, 10], "nll": [0.3, 0.3, 0.5], "pruned": 6},
    "CM": {"removed": [0, 5, 10], "nll": [0.1, 0.4, 0.9], "pruned": 1},
}


def test_curves_and_their_pruned_units_are_drawn(tmp_path):
    figure = plotting.pruning_curve(CURVES)
    (axes,) = figure.axes
    for curve, (drawn, mark) in zip(
        CURVES.values(), np.reshape(axes.lines, (2, 2)), strict=True
    ):
        np.testing.assert_array_equal(drawn.get_xdata(), curve["removed"])
        np.testing.assert_array_equal(drawn.get_ydata(), curve["nll"])
        assert set(mark.get_xdata()) == {curve["pruned"]}
        assert drawn.get_color() == mark.get_color()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[::2] == list(CURVES)
    figure.savefig(tmp_path / "figure.png")


def test_no_curves_are_refused():
    with pytest.raises(ValueError, match="`curves` must not be empty"):
        plotting.pruning_curve({})
