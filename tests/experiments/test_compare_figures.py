"""What the figures of the comparison are drawn from."""

import numpy as np
import pytest

from tfp_refine import plotting
from tfp_refine.experiments import compare_figures

_DRAWN = (
    "convergence",
    "entropy_cdf",
    "posterior_histograms",
    "ranking",
    "reliability_diagram",
    "shift_curves",
)


@pytest.fixture
def draw(monkeypatch):
    """Draws figures; a figure is what `plotting` was given for it."""
    for name in _DRAWN:
        monkeypatch.setattr(
            plotting, name, lambda *values, **options: (*values, options)
        )

    def figures(results):
        return {
            figure.name: figure.figure
            for drawn in compare_figures.draw(
                results, max(map(len, results.values()))
            ).values()
            for figure in drawn
        }

    return figures


def run(nll, **more):
    return {
        "nll": nll,
        "weights": {},
        "curve": {"step": [1, 2], "loss": [nll, nll]},
    } | more


def of_classes(nll, seed=0):
    """Returns a result that tells its NLL and its repetition everywhere."""
    return run(
        nll,
        calibration={
            "counts": [2.0, 0.0],
            "accuracy": [nll, None],
            "confidence": [seed, None],
            "edges": [0.0, 0.5, 1.0],
        },
        entropies={"test": [nll, seed], "other": [nll + 1.0, seed]},
        shifts=[
            {"shift": "rotation", "strength": 30.0, "ece": nll + seed},
            {"shift": "rotation", "strength": 60.0, "ece": nll + 3 * seed},
            {"shift": "fog", "strength": 1, "ece": nll},
        ],
    )


def test_each_section_has_its_figures():
    results = {"MAP": [of_classes(0.5)], "VI": [of_classes(0.4)]}
    for run_of in results.values():
        run_of[0]["weights"] = {
            "hidden, kernel": {"loc": [0.0, 1.0], "scale": [1.0, 1.0]}
        }
    found = {
        title: [figure.name for figure in drawn]
        for title, drawn in compare_figures.draw(
            results, max(map(len, results.values()))
        ).items()
    }
    assert found == {
        "Test data": ["nll", "reliability"],
        "Away from the training data": ["entropies", "shifts"],
        "Training": ["learning_curves", "posteriors"],
    }


def test_all_systems_and_repetitions_are_ranked(draw):
    results = {f"s{i}": [run(i), run(i + 0.5)] for i in range(9)}
    scores, label, _ = draw(results)["nll"]
    assert scores == {f"s{i}": [i, i + 0.5] for i in range(9)}
    assert label == "test NLL (nats)"


def test_curves_are_of_the_best_means_and_of_map(draw):
    results = {f"s{i}": [run(i), run(i)] for i in (6, 2, 4, 1, 3, 5)}
    results["lucky"] = [run(-9.0), run(90.0)]
    curves, *_ = draw(results)["learning_curves"]
    assert list(curves) == ["s2", "s4", "s1", "s3", "s5"]
    assert curves["s2"] == [r["curve"] for r in results["s2"]]
    # It has the place of the last of them.
    curves, *_ = draw(results | {"MAP": [run(100.0)] * 2})["learning_curves"]
    assert list(curves) == ["s2", "s4", "s1", "s3", "MAP"]
    curves, *_ = draw(results | {"MAP": [run(1.5)] * 2})["learning_curves"]
    assert list(curves) == ["s2", "s4", "s1", "s3", "MAP"]


def test_the_validation_nll_is_drawn_rather_than_losses_that_differ(draw):
    with_it = {"step": [1, 2], "loss": [2.0, 1.0], "val_nll": [2.0, 1.0]}
    results = {"MAP": [run(1.0, curve=with_it)]}
    _, labels, options = draw(results)["learning_curves"]
    assert list(labels) == ["val_nll"]
    assert options == {"log_steps": False}
    _, labels, _ = draw(results | {"VI": [run(2.0)]})["learning_curves"]
    assert list(labels) == ["loss"]


def test_one_point_is_no_curve(draw):
    curve = {"step": [1], "loss": [2.0]}
    results = {"MAP": [run(1.0), run(1.0, curve=curve)]}
    assert "learning_curves" not in draw(results)
    assert "learning_curves" not in draw({"NUTS": [run(1.0, curve={})]})


def test_reliability_is_that_of_the_first_repetition(draw):
    results = {"MAP": [of_classes(0.5), of_classes(0.3, seed=1)]}
    (bins, _) = draw(results)["reliability"]
    counts, accuracy, confidence, edges = bins["MAP"]
    np.testing.assert_array_equal(counts, [2.0, 0.0])
    np.testing.assert_array_equal(accuracy, [0.5, np.nan])
    np.testing.assert_array_equal(confidence, [0.0, np.nan])
    np.testing.assert_array_equal(edges, [0.0, 0.5, 1.0])


def test_entropies_are_by_data_set_and_of_the_first_repetition(draw):
    results = {
        "MAP": [of_classes(0.5), of_classes(0.3, seed=1)],
        "VI": [of_classes(0.4), of_classes(0.2, seed=1)],
    }
    (entropies, _) = draw(results)["entropies"]
    assert entropies == {
        "test": {"MAP": [0.5, 0], "VI": [0.4, 0]},
        "other": {"MAP": [1.5, 0], "VI": [1.4, 0]},
    }


def test_shifts_are_means_over_the_repetitions(draw):
    results = {"MAP": [of_classes(0.5, seed=1), of_classes(0.25, seed=2)]}
    (curves, _) = draw(results)["shifts"]
    assert curves == {
        "rotation": {"MAP": {"strength": [30.0, 60.0], "ece": [1.875, 4.875]}},
        "fog": {"MAP": {"strength": [1], "ece": [0.375]}},
    }


def test_posteriors_are_those_of_kernels(draw):
    def weights(value):
        return {
            f"{layer}, {kind}": {"loc": [value], "scale": [1.0]}
            for layer in ("hidden", "outputs")
            for kind in ("kernel", "bias")
        }

    results = {
        "VI": [run(1.0, weights=weights(1.0)), run(1.0, weights=weights(2.0))],
        "MAP": [run(2.0)],
    }
    (found, _) = draw(results)["posteriors"]
    assert found == {
        f"{layer}, kernel": {"VI": {"loc": [1.0], "scale": [1.0]}}
        for layer in ("hidden", "outputs")
    }


def test_what_no_system_has_is_not_drawn(draw):
    assert list(draw({"NUTS": [run(1.0, curve={})]})) == ["nll"]
