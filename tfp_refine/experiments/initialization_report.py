"""Tables and plots of the initialization experiment."""

import math

import numpy as np

from tfp_refine.experiments import text_table

_TITLES = {
    "uninformative": "uninformative",
    "heuristic": "heuristic",
    "xavier_normal": "Xavier normal",
    "orthogonal": "orthogonal",
    "lsuv": "LSUV",
    "iblm": "I-BLM",
    "iblm_paper": "I-BLM (paper)",
    "mc_dropout": "MC dropout",
}
# The methods whose speed is compared, the first that there is, and how fast.
_FAST, _PART = ("iblm", "iblm_paper"), 1 / 3
_NONE = "-"


def summarize(results):
    """Computes what the table of the curves shows.

    Args:
        results: Dict from method to a list of its results, one a split.

    Returns:
        summary: Dict from method to a dict of medians over the splits, floats;
            of those that did not diverge. `"reached"`: after which part of all
            steps I-BLM was as good as the method was in the end; `None` if it
            never was.
    """
    fast = _fast(results)
    summary = {}
    for method, runs in results.items():
        finished = [run for run in runs if "curve" in run]
        summary[method] = {"diverged": len(runs) - len(finished)}
        if not finished:
            continue
        for when, index in (("initial", 0), ("final", -1)):
            for metric in ("error", "mnll"):
                summary[method][f"{when}_{metric}"] = float(
                    np.median([run["curve"][metric][index] for run in finished])
                )
        summary[method]["initialization_seconds"] = float(
            np.median([run["initialization_seconds"] for run in finished])
        )
        parts = (
            _parts(results[fast], runs) if fast not in (None, method) else []
        )
        if parts:
            part = float(np.median(parts))
            summary[method]["reached"] = None if math.isinf(part) else part
    return summary


def _fast(results):
    return next((method for method in _FAST if method in results), None)


def _parts(fast_runs, runs):
    """Parts of all steps after which the fast method was as good, a list."""
    parts = []
    for fast, run in zip(fast_runs, runs, strict=False):
        if not ("curve" in fast and "curve" in run):
            continue
        target = run["curve"]["mnll"][-1]
        steps, values = fast["curve"]["step"], fast["curve"]["mnll"]
        reached = [
            step
            for step, mnll in zip(steps, values, strict=True)
            if mnll <= target
        ]
        parts.append(reached[0] / steps[-1] if reached else math.inf)
    return parts


def curves_table(dataset, error_name, results):
    """Formats the results of the curves.

    Args:
        dataset: Name of the data set.
        error_name: What `"error"` is.
        results: As of `summarize`.

    Returns:
        table: Text of several lines.
    """
    summary = summarize(results)
    splits = max(map(len, results.values()))
    rows = [
        [
            "",
            f"{error_name} at start",
            "MNLL at start",
            f"{error_name} at end",
            "MNLL at end",
            "seconds to initialize",
            "I-BLM there after",
        ]
    ]
    for method, medians in summary.items():
        rows.append([_TITLES[method], *_cells(medians)])
    head = f"{dataset}: test data, medians of {splits} splits; MNLL in nats"
    lines = ["", head, "", *text_table.lines(rows)]
    fast = _fast(results)
    others = [m for m in results if m not in _FAST and m != "mc_dropout"]
    if fast and others:
        parts = [p for m in others for p in _parts(results[fast], results[m])]
        early = sum(part <= _PART for part in parts)
        lines += [
            "",
            f"{_TITLES[fast]} has the final MNLL of another initializer in a "
            f"third of the steps or less in {early} of {len(parts)} cases.",
        ]
    diverged = [
        f"{_TITLES[method]} ({medians['diverged']} of {splits} splits)"
        for method, medians in summary.items()
        if medians["diverged"]
    ]
    if diverged:
        lines += [
            "",
            f"Diverged, and not in the medians: {', '.join(diverged)}",
        ]
    return "\n".join(lines)


def _cells(medians):
    if "final_mnll" not in medians:
        return ["diverged", *5 * [_NONE]]
    cells = [
        f"{medians[f'{when}_{metric}']:.3f}"
        for when in ("initial", "final")
        for metric in ("error", "mnll")
    ]
    cells.append(f"{medians['initialization_seconds']:.1f}")
    if "reached" not in medians:
        return [*cells, _NONE]
    reached = medians["reached"]
    return [
        *cells,
        "never" if reached is None else f"{100 * reached:.0f}% of the steps",
    ]


def toy_table(results):
    """Formats the results of the toy: a dict from method to its result."""
    rows = [["", "RMSE before training", "RMSE after it"]]
    for method, result in results.items():
        rows.append(
            [
                _TITLES[method],
                *(f"{result[w]['rmse']:.3f}" for w in ("before", "after")),
            ]
        )
    head = "function of one variable: distance of the means within the data"
    return "\n".join(["", head, "", *text_table.lines(rows)])


def curves_figures(error_name, results):
    """Draws the figures of the curves.

    Args:
        error_name: What `"error"` is.
        results: As of `summarize`.

    Returns:
        figures: Dict from a file's name to the axes of a figure.
    """
    from tfp_refine import plotting

    curves = {
        _TITLES[method]: [run["curve"] for run in runs if "curve" in run]
        for method, runs in results.items()
    }
    figures = {
        "curves": plotting.convergence(
            {title: runs for title, runs in curves.items() if runs},
            {
                "error": f"test {error_name}\nlower is better",
                "mnll": "test MNLL (nats)\nlower is better",
            },
        )
    }
    entropies = {
        _TITLES[method]: runs[0]["entropies"]
        for method, runs in results.items()
        if runs[0].get("entropies")
    }
    if entropies:
        sets = {name for of_method in entropies.values() for name in of_method}
        figures["entropies"] = plotting.entropy_cdf(
            {
                name: {t: values[name] for t, values in entropies.items()}
                for name in sorted(sets)
            }
        )
    return figures


def toy_figures(results, toy):
    """Draws the predictions before training and after it.

    Args:
        results: Dict from method to its result.
        toy: The task's object.

    Returns:
        figures: Dict from a file's name to the axes of a figure.
    """
    from tfp_refine import plotting

    return {
        f"toy_{when}": plotting.predictive_bands(
            toy.grid,
            {_TITLES[m]: result[when] for m, result in results.items()},
            data=(toy.x, toy.y),
            truth=toy.truth,
        )
        for when in ("before", "after")
    }
