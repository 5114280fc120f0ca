import numpy as np
import pytest

from tfp_refine import plotting

RNG = np.random.default_rng(0)
WEIGHTS = {
    "hidden": {
        "VI": {"loc": RNG.normal(size=200), "scale": np.full(200, 0.1)},
        "CM": {"loc": RNG.normal(size=200), "scale": np.full(200, 0.01)},
    },
    "outputs": {
        "VI": {"loc": RNG.normal(size=50), "scale": np.full(50, 1.0)},
    },
}


def test_a_row_a_tensor_and_a_histogram_a_posterior():
    figure = plotting.posterior_histograms(WEIGHTS)
    assert len(figure.axes) == 4
    counts = [len(axes.patches) for axes in figure.axes]
    assert counts == [2, 2, 1, 1]
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["hidden", "", "outputs", ""]


def test_a_posterior_has_one_color():
    figure = plotting.posterior_histograms(WEIGHTS)
    colors = {axes.patches[0].get_edgecolor() for axes in figure.axes}
    assert len(colors) == 1


def test_scales_are_where_they_belong_and_none_is_lost():
    figure = plotting.posterior_histograms(WEIGHTS)
    for axes, log_scale in ((figure.axes[1], -1.0), (figure.axes[3], 0.0)):
        corners = axes.patches[0].get_xy()
        filled = corners[corners[:, 1] > 0.0, 0]
        assert filled.min() <= log_scale <= filled.max()


def test_the_farthest_values_are_counted_too():
    (axes, *_) = plotting.posterior_histograms(WEIGHTS).axes
    for patch in axes.patches:
        x, y = patch.get_xy().T
        area = 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))
        np.testing.assert_allclose(area, 1.0, rtol=1e-6)


@pytest.mark.parametrize("weights", [{}, {"hidden": {}}], ids=str)
def test_bad_weights(weights):
    with pytest.raises(ValueError, match="`weights` must hold tensors"):
        plotting.posterior_histograms(weights)
