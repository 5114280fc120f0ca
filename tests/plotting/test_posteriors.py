import numpy as np
import pytest

from tfp_refine import plotting

RNG = np.random.default_rng(0)
WEIGHTS = {
    "hidden": {
        "VI": {"loc": RNG.normal(size=200), "scale": np.full(200, 0.1)},
        "CM": {"loc": RNG.normal(size=200), "scale": np.full(200, 0.01)},
    },
    "outputs": {"VI": {"loc": RNG.normal(size=50), "scale": np.full(50, 1.0)}},
}


def titles(panels):
    return [axes.get_title(loc="left") for axes in np.ravel(panels)]


@pytest.fixture
def layers(rng):
    return {
        name: {
            "loc": rng.normal(size=30),
            "scale": rng.uniform(0.01, 0.1, size=30),
            "bias_loc": rng.normal(size=biases),
            "bias_scale": rng.uniform(0.01, 0.1, size=biases),
        }
        for name, biases in (("hidden", 5), ("outputs", 0))
    }


def test_densities_are_named():
    grid = np.linspace(-3, 3, 50)
    curve = np.exp(-(grid**2))
    axes = plotting.densities(grid, {"exact": curve, "fit": 0.9 * curve})
    labels = [text.get_text() for text in axes.get_legend().texts]
    assert labels == ["exact", "fit"]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), 0.9 * curve)


def test_contours_hold_the_mass_that_they_stand_for(rng):
    line = np.linspace(-5.0, 5.0, 201)
    first, second = np.meshgrid(line, line[40:], indexing="ij")
    log_density = -0.5 * (first**2 + second**2 / 0.25)
    samples = rng.normal(size=(500, 2)) * [1.0, 0.5]
    far = np.concatenate([samples[:75], samples[:25] + [0.0, 99.0]])
    panels = plotting.posterior_contours(
        line, line[40:], log_density, {"A": samples, "B": far}
    )
    assert titles(panels) == ["A", "B, 25.0% outside"]
    counts, contours = panels[0].collections
    # Of a Gaussian in the plane, 1 - exp(-r^2 / 2) of the mass is within r.
    expected = [0.01, 0.1, 0.5]
    np.testing.assert_allclose(contours.levels, expected, rtol=0.05)
    assert counts.get_array().sum() == 500


def test_a_row_a_tensor_and_a_histogram_a_posterior():
    panels = plotting.posterior_histograms(WEIGHTS)
    assert panels.shape == (2, 2)
    counts = [len(axes.patches) for axes in panels.ravel()]
    assert counts == [2, 2, 1, 1]
    assert titles(panels) == ["hidden", "hidden", "outputs", "outputs"]
    colors = {axes.patches[0].get_edgecolor() for axes in panels.ravel()}
    assert len(colors) == 1  # of VI


def test_scales_are_where_they_belong_and_none_is_lost():
    panels = plotting.posterior_histograms(WEIGHTS)
    for axes, log_scale in zip(panels[:, 1], (-1.0, 0.0), strict=True):
        corners = axes.patches[0].get_xy()
        filled = corners[corners[:, 1] > 0.0, 0]
        assert filled.min() <= log_scale <= filled.max()


def test_the_farthest_values_are_counted_too():
    for patch in plotting.posterior_histograms(WEIGHTS)[0, 0].patches:
        x, y = patch.get_xy().T
        area = 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))
        np.testing.assert_allclose(area, 1.0, rtol=1e-6)


def test_each_weight_is_a_point_at_its_mean_and_log_variance(layers):
    hidden, outputs = plotting.posterior_scatter(layers, {"hidden": 0.04})
    for points, prefix in zip(hidden.collections, ("", "bias_"), strict=True):
        layer = layers["hidden"]
        np.testing.assert_allclose(
            points.get_offsets(),
            np.transpose(
                [layer[f"{prefix}loc"], np.log(layer[f"{prefix}scale"] ** 2)]
            ),
        )
    assert len(outputs.collections) == 1


def test_the_prior_is_a_line_where_it_is_known(layers):
    panels = plotting.posterior_scatter(layers, {"hidden": 0.04})
    (line,) = panels[0].lines
    np.testing.assert_allclose(line.get_ydata(), np.log(0.04))
    assert len(panels[1].lines) == 0
    assert titles(panels) == list(layers)
    # The last panel has neither biases nor a prior.
    legend = [text.get_text() for text in panels[1].get_legend().texts]
    assert legend == ["weights", "biases", "prior"]
