"""Tables and figures of the uncertainty experiment."""

from typing import Any

from tfp_refine.experiments import bench
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.data import functions
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import tables
from tfp_refine.experiments.measures import bands

_MEMORY = ("train_accuracy", "test_accuracy")
_CUBIC = ("rmse_at_data", "scale_at_data", "scale_far")


def images(results: bench.Results, data: dataset.Dataset) -> list[page.Section]:
    """Returns the section of perturbed images, if there are any."""
    curves = attack_curves(results)
    if not curves:
        return []
    drawn = page.figure(
        "attack",
        "Accuracy and entropy of perturbed images.",
        lambda: _attack_figure(curves),
    )
    title = "Fast gradient sign perturbations"
    return [page.Section(title, [_attack_table(curves), *drawn])]


def random_labels(
    results: bench.Results, data: dataset.Dataset
) -> list[page.Section]:
    """Returns the section of random labels."""
    curves = {
        results.titles[system]: of_seed[0]["curve"]
        for system, of_seed in results.details.items()
        if "train_accuracy" in of_seed.get(0, {}).get("curve", {})
    }

    def draw():
        from tfp_refine import plotting

        chance = 1.0 / data.num_classes
        return plotting.memorization(curves, chance) if curves else None

    table = tables.summary(results.rows, _MEMORY, results.titles)
    drawn = page.figure(
        "random_labels", "Accuracies, of the first repetition.", draw
    )
    return [page.Section("Random labels", [table, *drawn])]


def cubic(
    results: bench.Results, data: functions.FunctionData
) -> list[page.Section]:
    """Returns the section of the cubic function."""
    table = tables.summary(results.rows, _CUBIC, results.titles)
    table.notes.append(
        "Predictive standard deviations; that of the noise is 3."
    )
    drawn = page.figure(
        "cubic",
        "Predictions, with bands of standard deviations.",
        lambda: bands.figure(results, data),
    )
    return [page.Section("Cubic regression", [table, *drawn])]


def attack_curves(results: bench.Results) -> dict[str, dict[str, Any]]:
    """Returns the data of `plotting.attack_curves`: means over the seeds."""
    parts = results.rows["metric"].str.extract(r"attack/([^/]+)/(\w+)")
    rows = results.rows.assign(epsilon=parts[0], name=parts[1])
    rows = rows.dropna(subset=["name"]).astype({"epsilon": float})
    curves = {}
    for system, of_system in rows.groupby("system", sort=False):
        means = of_system.pivot_table("value", "epsilon", "name")
        curves[results.titles[system]] = {
            "epsilon": means.index.tolist(),
            **means.to_dict("list"),
        }
    return curves


def _attack_table(curves):
    epsilons = next(iter(curves.values()))["epsilon"]
    rows = [
        [
            f"{epsilon:g}",
            *(
                f"{curve['accuracy'][i]:.3f}, {curve['entropy'][i]:.2f}"
                for curve in curves.values()
            ),
        ]
        for i, epsilon in enumerate(epsilons)
    ]
    note = "Accuracy and mean predictive entropy (nats) by strength."
    return tables.Table(["strength", *curves], rows, [note])


def _attack_figure(curves):
    from tfp_refine import plotting

    return plotting.attack_curves(curves, "strength, parts of a pixel's range")
