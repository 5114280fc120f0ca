"""Tables and figures of the comparison of initializers."""

import math

import numpy as np

from tfp_refine.experiments import tasks
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import tables
from tfp_refine.experiments.measures import bands

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


def curves(results):
    """Returns the sections of the report of the curves.

    Args:
        results: `bench.Results`.

    Returns:
        sections: List of `page.Section`.
    """
    found = curves_of(results.rows)
    error = error_of(results.rows)
    parts = [summarize(results)]
    note = early(found)
    if note:
        parts.append(note)
    parts += tasks.figure(
        "curves",
        "Metrics on test data: medians, and the range over the repetitions.",
        lambda: _figure(results, found, error),
    )
    return [page.Section("From initialization to convergence", parts)]


def toy(results, data):
    """Returns the sections of the report of the toy.

    Args:
        results: `bench.Results`.
        data: `functions.FunctionData`.

    Returns:
        sections: List of `page.Section`.
    """
    parts = [
        tables.summary(
            results.rows, ("rmse_before", "rmse_at_data"), results.titles
        )
    ]
    for detail, when in (("bands_before", "before"), ("bands", "after")):
        parts += tasks.figure(
            f"toy_{when}",
            f"Predictions {when} training, with bands of standard deviations.",
            lambda detail=detail: bands.figure(results, data, detail),
        )
    return [page.Section("Function of one variable", parts)]


def error_of(rows):
    """Returns the name of the metric that is shown beside the likelihood."""
    is_regression = any(rows["metric"].str.fullmatch(r"curve/\d+/rmse"))
    return "rmse" if is_regression else "accuracy"


def curves_of(rows):
    """Returns the curves that rows hold.

    Args:
        rows: `pandas.DataFrame` of results.

    Returns:
        curves: Dict from a system to a dict from a seed to a curve: a dict with
            `"step"` and the metrics, lists.
    """
    parts = rows["metric"].str.extract(_CURVE)
    known = rows.assign(step=parts[0], name=parts[1]).dropna(subset=["step"])
    known = known.astype({"step": int})
    return {
        system: {
            int(seed): {
                "step": sorted(of_seed["step"].unique().tolist()),
                **{
                    name: of_name.sort_values("step")["value"].tolist()
                    for name, of_name in of_seed.groupby("name", sort=False)
                },
            }
            for seed, of_seed in of_system.groupby("seed")
        }
        for system, of_system in known.groupby("system", sort=False)
    }


def parts_of(fast, others):
    """Computes how soon a fast system is as good as others are in the end.

    Args:
        fast: Dict from a seed to the curve of the fast system.
        others: Likewise, of another.

    Returns:
        parts: List of the part of all steps after which the fast system's
            likelihood was that of the other after its last step, for each seed
            of both; infinite if it never was.
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


def summarize(results):
    """Returns the table of the curves: medians over the repetitions.

    Args:
        results: `bench.Results`.

    Returns:
        table: `tables.Table`.
    """
    rows, found = results.rows, curves_of(results.rows)
    error, fast = error_of(rows), _fast(found)
    num_seeds = rows["seed"].nunique()
    lines, diverged = [], []
    for system, title in results.titles.items():
        of_system = found.get(system, {})
        if not of_system:
            continue
        missing = num_seeds - len(of_system)
        if missing:
            diverged.append(f"{title} ({missing} of {num_seeds})")
        cells = [
            f"{np.median([c[metric][index] for c in of_system.values()]):.3f}"
            for index in (0, -1)
            for metric in (error, "nll")
        ]
        seconds = rows[
            (rows["system"] == system)
            & (rows["metric"] == "initialization_seconds")
        ]["value"]
        cells.append("-" if seconds.empty else f"{seconds.median():.1f}")
        parts = parts_of(found[fast], of_system) if fast else []
        if system == fast or not parts:
            cells.append("-")
        elif math.isinf(np.median(parts)):
            cells.append("never")
        else:
            cells.append(f"{100 * np.median(parts):.0f}% of the steps")
        lines.append([title, *cells])
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


def early(found):
    """Returns how often the fast system is as good as others early, or `""`.

    Args:
        found: What `curves_of` returns.
    """
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
        f"{fast} has the final likelihood of another initializer in a third of "
        f"the steps or less in {count} of {len(parts)} cases."
    )


def _fast(found):
    return next((system for system in _FAST if system in found), None)


def _figure(results, found, error):
    from tfp_refine import plotting

    if not found:
        return None
    title = tables.metric_of(error).head
    return plotting.convergence(
        {
            results.titles[system]: list(of_system.values())
            for system, of_system in found.items()
        },
        {error: f"test {title}", "nll": "test NLL (nats)"},
    )
