"""Tables and figures of the Laplace experiment."""

from typing import Any

import numpy as np

from tfp_refine.experiments import bench
from tfp_refine.experiments import report
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.harness import folder
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import tables
from tfp_refine.experiments.laplace import config as config_lib
from tfp_refine.experiments.laplace import toy as toy_lib
from tfp_refine.experiments.systems import laplace
from tfp_refine.experiments.systems import registry

# Metrics of the curves over flow lengths, as the figure knows them.
_OF_LENGTHS = {
    "mmd": "mmd",
    "nll": "nll",
    "elbo": "elbo",
    "fit_seconds": "seconds",
}
_BASES = {"laplace": "refined", "standard_normal": "from N(0, I)"}
_DISTANCES = (
    "The squared maximum mean discrepancy (MMD) of each posterior to half of "
    "the samples of NUTS; that of NUTS is between its halves, which is the "
    "floor. Seconds include those of the system that another starts from."
)
_INTEGRATION = (
    "Errors of a probability. sigmoid: on average, over means and standard "
    "deviations of the logit up to 10; softmax: the greatest of the classes, "
    "on average over random logits."
)
_LENGTHS = (
    "Flows of several lengths: distance to NUTS, test likelihood, bound, and "
    "seconds to fit."
)
_OF_TOY = ("mmd", "elbo", "seconds")
_OF_NUTS = (
    "max_r_hat",
    "min_effective_sample_size",
    "num_divergences",
    "mean_leapfrogs",
)
_GRID = 121


def comparison(
    results: bench.Results, data: dataset.Dataset
) -> list[page.Section]:
    """Returns the section of the distances, if there are any."""
    parts = []
    if (results.rows["metric"] == "mmd").any():
        table = tables.summary(results.rows, _OF_LENGTHS, results.titles)
        parts = [_DISTANCES, table]
    parts += page.figure(
        "flow_length", _LENGTHS, lambda: _length_figure(results)
    )
    return [page.Section("Distances to NUTS", parts)] if parts else []


def show_toy(
    config: config_lib.Config,
    results: folder.Results,
    samples: dict[str, list[list[float]]],
) -> None:
    """Prints the table, and writes a page with the contours, of the toy.

    Args:
        config: The configuration.
        results: Its results.
        samples: Dict from a system to its samples, `[S][2]`.
    """
    titles = {name: _toy_title(name, config) for name in samples}
    table = tables.summary(results.rows, (*_OF_TOY, *_OF_NUTS), titles)
    table.notes += report.mixing(results.rows, titles)
    mmd = results.rows[results.rows["metric"] == "mmd"]
    mmd = mmd.set_index("system")["value"]
    panels = {
        f"{title}: MMD {mmd[name]:.4f}": samples[name]
        for name, title in titles.items()
    }
    drawn = page.figure(
        "toy",
        "Samples, over the contours of the posterior.",
        lambda: _contours(toy_lib.Toy(config), samples["nuts"], panels),
    )
    title = "Logistic regression with two weights; ELBO in nats"
    _write("toy", config, results, page.Section(title, [table, *drawn]))


def show_integration(
    config: config_lib.Config,
    results: folder.Results,
    binary: dict[str, Any],
) -> None:
    """Prints the table, and writes a page with the errors, of integration.

    Args:
        config: The configuration.
        results: Its results.
        binary: Result of `integration.binary_errors`.
    """

    def draw():
        from tfp_refine import plotting

        return plotting.integration_errors(
            *(binary[name] for name in ("means", "scales", "probit", "mc"))
        )

    table = tables.summary(results.rows, ("*",))
    table.notes = []  # there is one seed, and no chance in the sigmoid's
    drawn = page.figure("integration", "Errors for two classes.", draw)
    section = page.Section(
        "Integration of predictions", [_INTEGRATION, table, *drawn]
    )
    _write("integration", config, results, section)


def _write(task, config, results, section):
    header = page.header("laplace", config)
    page.publish(results.path, f"laplace: {task}", [section], header)


def _length_figure(results):
    from tfp_refine import plotting

    curves, references = length_curves(results)
    return plotting.flow_length(curves, references) if curves else None


def length_curves(
    results: bench.Results,
) -> tuple[dict[str, dict[str, list[float]]], dict[str, dict[str, float]]]:
    """Returns the data of `plotting.flow_length`: means over seeds.

    Returns:
        curves: Of each refinement, lists: `"length"`, and metrics.
        references: Of each other posterior, its metrics.
    """
    values = results.rows.groupby(["system", "metric"], sort=False)["value"]
    means = values.mean().unstack().replace([np.inf, -np.inf], np.nan)
    means = means[[name for name in _OF_LENGTHS if name in means]]
    means = means.rename(columns=_OF_LENGTHS)
    points, references = {}, {}
    for system in means.index:
        expression = registry.parse(system, type(results.config))
        if expression.name == "flows":
            points[system] = _split_length(expression, results.config)
        elif expression.name in (*laplace.NAMES, "nuts") or (
            expression.name == "refined"
            and expression.argument.name in laplace.NAMES
        ):
            known = means.loc[system].dropna()
            references[results.titles[system]] = known.to_dict()
    labels = [label for label, _ in points.values()]
    shared = means.loc[list(points)].dropna(axis="columns")
    shared.insert(0, "length", [length for _, length in points.values()])
    curves = {
        label: of.sort_values("length").to_dict("list")
        for label, of in shared.groupby(labels, sort=False)
    }
    return curves, references


def _split_length(expression, config):
    """Returns a label that all lengths of some flows share, and the length."""
    own = registry.configured(expression, config)
    others = [
        f"{name}={text}"
        for name, text in expression.options
        if name not in ("flow_length", "flow_base")
    ]
    argument = registry.short(expression.argument)
    others = [argument] * (argument != "laplace") + others
    label = _BASES[own.flow_base]
    return (f"{label} ({', '.join(others)})" if others else label), (
        own.flow_length
    )


def _toy_title(name, config):
    titles = {"laplace": "Laplace", "vi": "VI, factorized", "nuts": "NUTS"}
    if name in titles:
        return titles[name]
    expression = registry.parse(name, type(config))
    if expression.name == "refined":
        return registry.title(expression)
    label, length = _split_length(expression, config)
    return f"{label}, {length} flow{'s' * (length > 1)}"


def _contours(toy, reference, samples):
    from tfp_refine import plotting

    low, high = np.quantile(reference, [0.002, 0.998], axis=0)
    margin = 0.2 * (high - low)
    first, second = (
        np.linspace(a, b, _GRID)
        for a, b in zip(low - margin, high + margin, strict=True)
    )
    grid = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1)
    return plotting.posterior_contours(
        first, second, toy.log_joint(grid), samples
    )
