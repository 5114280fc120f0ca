"""Summary, table and plot of the UCI experiment."""

import numpy as np

from tfp_refine.experiments import figures
from tfp_refine.experiments import text_table

_TITLES = {
    "vi": "VI",
    "control": "VI, as long",
    "refined_vi": "refined VI",
    "mnf": "MNF",
}


def summarize(results):
    """Computes mean and standard deviation over splits.

    Args:
        results: List, a split each, of `{method: {metric: number, ...}}`.

    Returns:
        summary: `{method: {metric: mean, metric_std: standard deviation}}`.
    """
    summary = {}
    for method in results[0]:
        summary[method] = {}
        for metric, value in results[0][method].items():
            if not isinstance(value, float) or metric == "seconds":
                continue
            values = [result[method][metric] for result in results]
            summary[method][metric] = float(np.mean(values))
            if len(values) > 1:
                summary[method][f"{metric}_std"] = float(np.std(values, ddof=1))
    return summary


def wall_seconds(results):
    """Returns the wall time of each method, in seconds, over all splits."""
    return {
        method: sum(result[method]["seconds"] for result in results)
        for method in results[0]
    }


def sweep_table(dataset, results):
    """Formats the results of several experiments.

    Args:
        dataset: Name of the data set.
        results: Dict from name of an experiment to what `summarize` takes.

    Returns:
        table: Text of several lines.
    """
    summaries = {
        (name, method): values
        for name, splits in results.items()
        for method, values in summarize(splits).items()
    }
    columns = _columns(next(iter(summaries.values())))
    rows = [["", "", *map(_head, columns)]]
    for (name, method), values in summaries.items():
        cells = [_cell(values, column) for column in columns]
        rows.append([name, _TITLES[method], *cells])
    splits = len(next(iter(results.values())))
    title = _title(dataset, splits)
    return "\n".join(["", title, "", *text_table.lines(rows)])


def plot_depths(directory, results):
    """Plots the test likelihood over depths, if matplotlib is installed.

    Args:
        directory: Folder of `depths_METHOD.png`.
        results: As for `sweep_table`, by names that end in `_depth_DEPTH`.
    """
    if not figures.can_plot():
        return
    from tfp_refine import plotting

    for method in next(iter(results.values()))[0]:
        curves = {}
        for name, splits in results.items():
            system, _, depth = name.rpartition("_depth_")
            curve = curves.setdefault(system, {"depth": [], "values": []})
            curve["depth"].append(int(depth))
            curve["values"].append([split[method]["mll"] for split in splits])
        axes = plotting.depth_sweep(
            curves,
            f"{_TITLES[method]}: test log likelihood (nats)\nhigher is better",
        )
        figures.save(directory, {f"depths_{method}": axes})


def table(dataset, num_splits, summary, paper=None):
    """Formats the summary beside the paper's table.

    Args:
        dataset: Name of the data set.
        num_splits: Number of splits.
        summary: What `summarize` returned.
        paper: Entry of `published.UCI`, or `None`.

    Returns:
        table: Text of several lines.
    """
    columns = _columns(next(iter(summary.values())))
    rows = [["", *map(_head, columns)]]
    if paper:
        rows[0] += ["paper: MLL", "ELBO"]
    for method, values in summary.items():
        cells = [_cell(values, column) for column in columns]
        if paper:
            published = paper.get(method, (None, None))
            cells += ["-" if v is None else f"{v:.3f}" for v in published]
        rows.append([_TITLES[method], *cells])
    title = _title(dataset, num_splits)
    return "\n".join(["", title, "", *text_table.lines(rows)])


def _title(dataset, num_splits):
    return (
        f"{dataset}: test log likelihood (MLL) and bound (ELBO) in nats, "
        f"original units; mean ± standard deviation over {num_splits} splits"
    )


def _columns(values):
    return [
        metric
        for metric in values
        if metric.startswith(("mll", "rmse", "elbo"))
        and not metric.endswith(("_std", "_error", "_init"))
    ]


def _head(column):
    if column == "mll":
        return "MLL"
    if column.startswith("mll_"):
        return f"MLL ({column.split('_')[1]} draws)"
    return column.upper()


def _cell(values, column):
    digits = 1 if column == "elbo" else 3
    cell = f"{values[column]:.{digits}f}"
    if f"{column}_std" in values:
        cell += f" ± {values[f'{column}_std']:.{digits}f}"
    return cell


def staircase(history, constant):
    """Extracts the bound's way up, as plain lists in original units.

    Args:
        history: `RefinedEnsemble.history`.
        constant: `N log s_y`, subtracted from every bound.

    Returns:
        staircase: What `plotting.elbo_staircase` needs, and whether each
            optimization was kept.
    """
    bounds = ("trace_elbo", "elbo_init", "elbo_conditioned", "elbo_aux")
    return {
        "trace_step": history["trace_step"].tolist(),
        "kept": history["kept"].tolist(),
        **{name: (history[name] - constant).tolist() for name in bounds},
    }


def plot(directory, results):
    """Plots the staircase of the first split, if matplotlib is installed.

    Args:
        directory: Folder of `elbo_staircase.png`.
        results: As for `summarize`.
    """
    if "refined_vi" not in results[0]:
        return
    if not figures.can_plot():
        return
    from tfp_refine import plotting

    axes = plotting.elbo_staircase(results[0]["refined_vi"]["staircase"])
    figures.save(directory, {"elbo_staircase": axes})
