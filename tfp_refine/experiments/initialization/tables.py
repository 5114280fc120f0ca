"""Tables and figures of the comparison of initializers."""

import math
import typing
from collections.abc import Mapping

import numpy as np

from tfp_refine.experiments import bench
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.data import functions
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import tables
from tfp_refine.experiments.measures import bands

if typing.TYPE_CHECKING:
    import pandas as pd

# Curves, by system and seed: steps and metrics.
Curves = dict[str, dict[int, dict[str, list[float]]]]

# The systems whose speed is compared, the first that there is, and how fast.
_FAST, _PART = ("iblm", "iblm_paper"), 1 / 3
_INITIALIZERS = (
    "uninformative",
    "heuristic",
    "xavier_normal",
    "orthogonal",
    "lsuv",
)
_CURVE = r"curve/(\d+)/(\w+)"
_LABELS = {
    "rmse": "test RMSE (units of the target)\nlower is better",
    "accuracy": "test accuracy (fraction)\nhigher is better",
    "nll": "test NLL (nats per example)\nlower is better",
}


def curves(results: bench.Results, data: dataset.Dataset) -> list[page.Section]:
    """Returns the section of the curves."""
    found = curves_of(results.rows)
    note = early(found, results.titles)
    parts = [
        summarize(results),
        *([note] if note else []),
        *page.figure(
            "curves",
            "Metrics on test data: medians, and the range over the "
            "repetitions.",
            lambda: _figure(results, found),
        ),
    ]
    return [page.Section("From initialization to convergence", parts)]


def toy(
    results: bench.Results, data: functions.FunctionData
) -> list[page.Section]:
    """Returns the section of the toy."""
    metrics = ("rmse_before", "rmse_at_data")
    parts = [tables.summary(results.rows, metrics, results.titles)]
    for detail, when in (("bands_before", "before"), ("bands", "after")):
        parts += page.figure(
            f"toy_{when}",
            f"Predictions {when} training, with bands of standard deviations.",
            lambda detail=detail: bands.figure(results, data, detail),
        )
    return [page.Section("Function of one variable", parts)]


def error_of(rows: "pd.DataFrame") -> str:
    """Returns the name of the metric that is shown beside the likelihood."""
    is_regression = any(rows["metric"].str.fullmatch(r"curve/\d+/rmse"))
    return "rmse" if is_regression else "accuracy"


def curves_of(rows: "pd.DataFrame") -> Curves:
    """Returns the curves that rows hold: by system and seed.

    Each is a dict with `"step"` and the metrics, lists.
    """
    parts = rows["metric"].str.extract(_CURVE)
    known = rows.assign(step=parts[0], name=parts[1]).dropna(subset=["step"])
    known = known.astype({"step": int})
    curves: Curves = {}
    for (system, seed), of in known.groupby(["system", "seed"], sort=False):
        table = of.pivot(index="step", columns="name", values="value")
        curves.setdefault(system, {})[seed] = {
            "step": table.index.tolist(),
            **table.to_dict("list"),
        }
    return curves


def parts_of(
    fast: dict[int, dict[str, list[float]]],
    others: dict[int, dict[str, list[float]]],
) -> list[float]:
    """Computes the steps in which a fast system reaches another's final score.

    Returns:
        parts: The part of all steps after which the fast system's likelihood
            was that of the other after its last step, for each seed of both;
            infinite if it never was.
    """
    found = []
    for seed in fast.keys() & others.keys():
        target = others[seed]["nll"][-1]
        steps = fast[seed]["step"]
        reached = [
            step
            for step, nll in zip(steps, fast[seed]["nll"], strict=True)
            if nll <= target
        ]
        found.append(reached[0] / steps[-1] if reached else math.inf)
    return found


def summarize(results: bench.Results) -> tables.Table:
    """Returns the table of the curves: medians over the repetitions."""
    rows, found = results.rows, curves_of(results.rows)
    error, fast = error_of(rows), _fast(found)
    num_seeds = rows["seed"].nunique()
    seconds = rows[rows["metric"] == "initialization_seconds"]
    seconds = seconds.groupby("system")["value"].median()
    lines, diverged = [], []
    for system in filter(found.get, results.titles):
        title, curves = results.titles[system], found[system].values()
        if len(curves) < num_seeds:
            missing = num_seeds - len(curves)
            diverged.append(f"{title} ({missing} of {num_seeds})")
        medians = [
            np.median([curve[metric][index] for curve in curves])
            for index in (0, -1)
            for metric in (error, "nll")
        ]
        took = f"{seconds[system]:.1f}" if system in seconds else "-"
        parts = parts_of(found[fast], found[system]) if fast else []
        after = "-"
        if system != fast and parts:
            part = np.median(parts)
            after = f"{100 * part:.0f}% of the steps"
            after = "never" if math.isinf(part) else after
        lines.append([title, *(f"{m:.3f}" for m in medians), took, after])
    head = [
        f"{tables.metric_of(metric).head} {when}"
        for when in ("at start", "at end")
        for metric in (error, "nll")
    ]
    notes = [f"Medians over repetitions, of which there are {num_seeds}."]
    if diverged:
        notes.append(f"Failed, and not in the medians: {', '.join(diverged)}.")
    return tables.Table(
        ["", *head, "seconds to initialize", "I-BLM there after"], lines, notes
    )


def early(found: Curves, titles: Mapping[str, str]) -> str:
    """Returns how often the fast system is as good as others early, or `""`."""
    fast = _fast(found)
    parts = [
        part
        for system in _INITIALIZERS
        if fast and system in found
        for part in parts_of(found[fast], found[system])
    ]
    if not parts:
        return ""
    count = sum(part <= _PART for part in parts)
    return (
        f"{titles[fast]} has the final likelihood of another initializer in a "
        f"third of the steps or less in {count} of {len(parts)} cases."
    )


def _fast(found):
    return next((system for system in _FAST if system in found), None)


def _figure(results, found):
    from tfp_refine import plotting

    if not found:
        return None
    error = error_of(results.rows)
    return plotting.convergence(
        {
            results.titles[system]: list(of_system.values())
            for system, of_system in found.items()
        },
        {error: _LABELS[error], "nll": _LABELS["nll"]},
    )
