"""Figures of the Laplace experiment show the numbers they are given."""

import numpy as np
import pytest

from tfp_refine import plotting


def lines_of(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_flow_lengths_have_a_panel_a_metric_and_lines_of_others(tmp_path):
    curve = {"length": [1, 5], "mmd": [0.1, 0.01], "seconds": [2.0, 3.0]}
    figure = plotting.flow_length(
        {"refined": curve}, {"NUTS": {"mmd": 0.004}, "Laplace": {"seconds": 1}}
    )
    mmd, seconds = figure.axes
    np.testing.assert_allclose(
        lines_of(mmd)["refined"].get_xydata(), [[1, 0.1], [5, 0.01]]
    )
    assert mmd.get_yscale() == "log"
    assert set(lines_of(mmd)["NUTS"].get_ydata()) == {0.004}
    assert "Laplace" not in lines_of(mmd)
    assert "NUTS" not in lines_of(seconds)
    np.testing.assert_allclose(
        lines_of(seconds)["refined"].get_ydata(), [2.0, 3.0]
    )
    figure.savefig(tmp_path / "figure.png")


def test_shifts_have_a_column_each_and_metrics_a_row(tmp_path):
    curve = {"strength": [15, 30], "nll": [0.5, 1.0], "ece": [0.1, 0.2]}
    other = {"strength": [1, 2, 3], "nll": [0.5, 1.0, 2.0], "ece": [0, 0, 1]}
    figure = plotting.shift_curves(
        {"rotation": {"A": curve}, "fog": {"A": other, "B": other}}
    )
    first, second, third, fourth = figure.axes
    assert first.get_title(loc="left") == "rotation"
    assert second.get_title(loc="left") == "fog"
    np.testing.assert_allclose(lines_of(first)["A"].get_ydata(), [0.5, 1.0])
    np.testing.assert_allclose(lines_of(third)["A"].get_ydata(), [0.1, 0.2])
    np.testing.assert_allclose(
        lines_of(fourth)["B"].get_xydata(), [[1, 0], [2, 0], [3, 1]]
    )
    assert "nats" in first.get_ylabel()
    figure.savefig(tmp_path / "figure.png")


def test_contours_hold_the_mass_that_they_stand_for(rng, tmp_path):
    line = np.linspace(-5.0, 5.0, 201)
    first, second = np.meshgrid(line, line[40:], indexing="ij")
    log_density = -0.5 * (first**2 + second**2 / 0.25)
    samples = rng.normal(size=(500, 2)) * [1.0, 0.5]
    figure = plotting.posterior_contours(
        line, line[40:], log_density, {"A": samples, "B": samples[:99]}
    )
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["A", "B"]
    contours = figure.axes[0].collections[1]
    # Of a Gaussian in the plane, 1 - exp(-r^2 / 2) of the mass is within r.
    expected = [0.01, 0.1, 0.5]
    np.testing.assert_allclose(contours.levels, expected, rtol=0.05)
    figure.savefig(tmp_path / "figure.png")


def test_integration_errors_fall_with_the_draws(tmp_path):
    probit, mc = np.full((3, 2), 0.01), np.array([[0.5, 0.1]] * 3)
    figure = plotting.integration_errors(
        [0.0, 1.0, 2.0], [0.0, 1.0], probit, mc, num_samples=25
    )
    assert figure.axes[1].get_title(loc="left") == "Monte Carlo, 25 draws"
    colors = figure.axes[1].collections[0].get_array()
    np.testing.assert_allclose(colors, [[0.1] * 3, [0.02] * 3])
    curves = lines_of(figure.axes[2])
    worst = curves["Monte Carlo, worst"]
    np.testing.assert_allclose(
        worst.get_ydata(), 0.5 / np.sqrt(worst.get_xdata())
    )
    np.testing.assert_allclose(
        curves["Monte Carlo, mean"].get_ydata()[0], 0.3, rtol=1e-6
    )
    assert set(curves["probit, mean"].get_ydata()) == {0.01}
    figure.savefig(tmp_path / "figure.png")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plotting.flow_length({}),
        lambda: plotting.shift_curves({}),
        lambda: plotting.shift_curves({"fog": {}}),
        lambda: plotting.posterior_contours([0.0], [0.0], [[0.0]], {}),
    ],
    ids=["flow_length", "no_shift", "no_predictor", "posterior_contours"],
)
def test_figures_of_nothing_are_refused(draw):
    with pytest.raises(ValueError, match="Received: "):
        draw()
