import numpy as np

from tfp_refine import plotting


def _staircase(members):
    return {
        "trace_step": [1, 2, 3, 4],
        "trace_elbo": np.tile([-9.0, -7.0, -6.0, -5.0], (members, 1)),
        "elbo_init": [-8.0] * members,
        "elbo_aux": np.tile([-7.0, -5.0], (members, 1)),
    }


def test_staircase_shows_all_members_and_the_mean_field_bound(tmp_path):
    for members in (1, 3):
        figure = plotting.elbo_staircase(_staircase(members))
        (axes,) = figure.axes
        horizontal = [
            line.get_ydata()[0]
            for line in axes.lines
            if len(set(line.get_ydata())) == 1 and len(line.get_ydata()) == 2
        ]
        assert -8.0 in horizontal
        low, high = axes.get_ylim()
        assert low < -8.0 < -5.0 < high
        figure.savefig(tmp_path / "figure.png")


def test_densities_are_named(tmp_path):
    grid = np.linspace(-3, 3, 50)
    curve = np.exp(-(grid**2))
    figure = plotting.densities(grid, {"exact": curve, "fit": 0.9 * curve})
    labels = [text.get_text() for text in figure.axes[0].get_legend().texts]
    assert labels == ["exact", "fit"]
    figure.savefig(tmp_path / "figure.png")
