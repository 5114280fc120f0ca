import numpy as np
import pytest

from tfp_refine import plotting


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


def test_each_weight_is_a_point_at_its_mean_and_log_variance(layers, tmp_path):
    figure = plotting.posterior_scatter(layers, {"hidden": 0.04})
    hidden, outputs = figure.axes
    weights, biases = hidden.collections
    for points, prefix in ((weights, ""), (biases, "bias_")):
        layer = layers["hidden"]
        np.testing.assert_allclose(
            points.get_offsets(),
            np.transpose(
                [layer[f"{prefix}loc"], np.log(layer[f"{prefix}scale"] ** 2)]
            ),
        )
    assert len(outputs.collections) == 1
    figure.savefig(tmp_path / "figure.png")


def test_the_prior_is_a_line_where_it_is_known(layers):
    figure = plotting.posterior_scatter(layers, {"hidden": 0.04})
    hidden, outputs = figure.axes
    (line,) = hidden.lines
    np.testing.assert_allclose(line.get_ydata(), np.log(0.04))
    assert len(outputs.lines) == 0
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(layers)


def test_no_layers_are_refused():
    with pytest.raises(ValueError, match="`layers` must not be empty"):
        plotting.posterior_scatter({})
