import numpy as np
import pytest

from tfp_refine import plotting


@pytest.fixture
def entropies(rng):
    return {
        name: {
            "MNIST": rng.exponential(0.1, size=500),
            "notMNIST": rng.uniform(0.0, most, size=200),
            "noise": np.full(100, most),
        }
        for name, most in (("VI", 1.0), ("refined VI", 2.0))
    }


def test_bins_hold_all_examples_as_fractions(entropies, tmp_path):
    figure = plotting.entropy_histogram(entropies, num_bins=20)
    for axes, sets in zip(figure.axes, entropies.values(), strict=True):
        for steps, values in zip(axes.patches, sets.values(), strict=True):
            fractions, edges, _ = steps.get_data()
            assert len(fractions) == 20
            np.testing.assert_allclose(fractions.sum(), 1.0)
            np.testing.assert_allclose(
                fractions[0], np.mean(values < edges[1]), rtol=1e-12
            )
            assert edges[0] == 0.0
            assert edges[-1] == max(
                values.max()
                for sets in entropies.values()
                for values in sets.values()
            )
    figure.savefig(tmp_path / "figure.png")


def test_panels_and_data_sets_are_named(entropies):
    figure = plotting.entropy_histogram(entropies)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["VI", "refined VI"]
    labels = [t.get_text() for t in figure.axes[1].get_legend().texts]
    means = [values.mean() for values in entropies["refined VI"].values()]
    assert labels == [
        f"{name}, mean {mean:.2f}"
        for name, mean in zip(
            ("MNIST", "notMNIST", "noise"), means, strict=True
        )
    ]
    assert figure.axes[-1].get_xlabel() == "predictive entropy (nats)"


def test_only_the_first_data_set_is_filled(entropies):
    figure = plotting.entropy_histogram(entropies)
    for axes in figure.axes:
        assert [steps.get_fill() for steps in axes.patches] == [
            True,
            False,
            False,
        ]


def test_entropies_that_are_all_zero_are_in_the_first_bin(tmp_path):
    figure = plotting.entropy_histogram({"sure": {"in": np.zeros(4)}}, 10)
    fractions, _, _ = figure.axes[0].patches[0].get_data()
    np.testing.assert_array_equal(fractions, [1.0] + [0.0] * 9)
    figure.savefig(tmp_path / "figure.png")


@pytest.mark.parametrize(
    "bad", [{}, {"a": {}}, {"a": {"in": [0.1]}, "b": {}}, {"a": {"in": []}}]
)
def test_nothing_to_show_is_refused(bad):
    with pytest.raises(ValueError, match="`entropies` must hold predictors"):
        plotting.entropy_histogram(bad)
