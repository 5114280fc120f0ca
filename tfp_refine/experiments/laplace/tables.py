"""Tables and figures of the Laplace experiment."""

import textwrap

import numpy as np

from tfp_refine.experiments import report
from tfp_refine.experiments.harness import figures
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import tables
from tfp_refine.experiments.laplace import toy as toy_lib
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
    "the samples of NUTS; that of NUTS is between its halves, and none can be "
    "expected below it. Seconds are those of what a system starts from, too."
)
_LENGTHS = (
    "Flows of several lengths: distance to NUTS, test likelihood, bound, and "
    "seconds to fit."
)
_MAX_R_HAT = 1.01
_GRID = 121


def show_comparison(results):
    """Prints tables, and writes a page with figures, of the comparison.

    Args:
        results: `bench.Results`.

    Raises:
        OSError: If a file cannot be written.
    """
    parts = mixing(results.rows, "raise --nuts_warmup")
    if (results.rows["metric"] == "mmd").any():
        table = tables.summary(results.rows, _OF_LENGTHS, results.titles)
        parts = [_DISTANCES, table, *parts]
    shown = list(parts)
    curves, references = length_curves(results)
    if curves and figures.can_plot():
        from tfp_refine import plotting

        drawn = plotting.flow_length(curves, references)
        parts.append(page.Figure("flow_length", _LENGTHS, drawn))
    report.show(
        results, [page.Section("Distances to NUTS", parts)] if parts else ()
    )
    for part in shown:
        is_table = isinstance(part, tables.Table)
        print(part.to_text() if is_table else textwrap.fill(part, 100) + "\n")


def show_toy(config, results, samples):
    """Prints the table and draws the contours of the toy.

    Args:
        config: `Config`.
        results: `folder.Results`.
        samples: Dict from a system to its samples, `[S][2]`.
    """
    titles = {name: _toy_title(name, config) for name in samples}
    print("Logistic regression with two weights; ELBO in nats\n")
    shown = ("mmd", "elbo", "seconds")
    print(tables.summary(results.rows, shown, titles).to_text())
    for note in mixing(results.rows):
        print(note)
    if not figures.can_plot():
        return
    mmd = results.rows[results.rows["metric"] == "mmd"]
    mmd = mmd.set_index("system")["value"]
    panels = {
        f"{title}: MMD {mmd[name]:.4f}": samples[name]
        for name, title in titles.items()
    }
    drawn = _contours(toy_lib.Toy(config), samples["nuts"], panels)
    figures.save(results.path, {"toy": drawn})


def show_integration(config, results, binary):
    """Prints the table and draws the errors of integration.

    Args:
        config: `Config`.
        results: `folder.Results`.
        binary: What `integration.binary_errors` returns.
    """
    del config
    print(
        "Errors of a probability. sigmoid: on average, over means and standard "
        "deviations of the logit up to 10;\nsoftmax: the greatest of the "
        "classes, on average over random logits\n"
    )
    print(tables.summary(results.rows, ("*",)).to_text())
    if not figures.can_plot():
        return
    from tfp_refine import plotting

    drawn = plotting.integration_errors(
        *(binary[name] for name in ("means", "scales", "probit", "mc"))
    )
    figures.save(results.path, {"integration": drawn})


def mixing(rows, advice=""):
    """Says how far the samples of NUTS can be trusted.

    Args:
        rows: `pandas.DataFrame`, as `tables.frame` returns it.
        advice: What helps if its chains have not mixed.

    Returns:
        notes: A sentence for each NUTS.
    """
    notes = []
    for system, of in rows.groupby("system", sort=False):
        values = of.groupby("metric")["value"]
        low, high, mean = values.min(), values.max(), values.mean()
        if "max_r_hat" not in mean:
            continue
        note = (
            f"{system}: R-hat at most {high['max_r_hat']:.3f}, effective "
            f"sample size at least {low['min_effective_sample_size']:.0f}, "
            f"{high['num_divergences']:.0f} divergences, "
            f"{mean['mean_leapfrogs']:.0f} gradients per transition"
        )
        # Not `worst > ...`, which NaN would pass.
        if not high["max_r_hat"] <= _MAX_R_HAT:
            note += "; its chains have not mixed"
            note += f": {advice}" if advice else ""
        notes.append(f"{note}.")
    return notes


def length_curves(results):
    """Returns what `plotting.flow_length` shows: means over seeds.

    Args:
        results: `bench.Results`.

    Returns:
        curves: Dict from the name of a refinement to a dict of lists:
            `"length"`, and metrics.
        references: Dict from the name of another posterior to its metrics.
    """
    means = results.rows.groupby(["system", "metric"], sort=False)["value"]
    means = means.mean().unstack()
    names = [name for name in _OF_LENGTHS if name in means]
    points, references = {}, {}
    for system, values in means.iterrows():
        expression = registry.parse(system, type(results.config))
        known = {
            _OF_LENGTHS[name]: float(values[name])
            for name in names
            if np.isfinite(values[name])
        }
        if expression.name in ("laplace", "laplace_all", "nuts"):
            references[results.titles[system]] = known
        if expression.name != "flows":
            continue
        label, length = _split_length(expression, results.config)
        points.setdefault(label, []).append({"length": length, **known})
    shared = [
        name
        for name in ("length", *_OF_LENGTHS.values())
        if all(name in point for curve in points.values() for point in curve)
    ]
    curves = {
        label: {
            name: [point[name] for point in sorted(curve, key=_length)]
            for name in shared
        }
        for label, curve in points.items()
    }
    return curves, references


def _length(point):
    return point["length"]


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
    label, length = _split_length(registry.parse(name, type(config)), config)
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
