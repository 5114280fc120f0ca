"""Scores of many predictors, one below the other."""

from typing import Any

import matplotlib.figure
import numpy as np

from tfp_refine.plotting import grid


def ranking(scores: Any, label: Any) -> matplotlib.figure.Figure:
    """Plots scores as points, the lowest at the top.

    Lines are standard deviations over the runs; small points are single runs.

    Args:
        scores: Dict from name of a predictor to its scores, one for each run.
        label: What the scores are, for the axis.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no predictor, or one without scores, or a score
            is not finite.
    """
    if not scores or not all(np.size(v) for v in scores.values()):
        raise ValueError(
            "`scores` must hold predictors, each with a score at least. "
            f"Received: scores={scores!r}"
        )
    values = {name: np.asarray(v, np.float64) for name, v in scores.items()}
    for name, of_runs in values.items():
        if not np.all(np.isfinite(of_runs)):
            raise ValueError(
                f"`scores` must be finite. Received: {of_runs} for {name!r}"
            )
    names = sorted(values, key=lambda name: values[name].mean())
    figure, axes = grid.panel(6.4, 0.9 + 0.26 * len(names))
    for row, name in enumerate(names):
        of_runs = values[name]
        spread = np.std(of_runs, ddof=1) if len(of_runs) > 1 else 0.0
        axes.errorbar(
            of_runs.mean(), row, xerr=spread, fmt="o", color="C0", markersize=5
        )
        axes.plot(
            of_runs, np.full(len(of_runs), row), ".", color="0.6", markersize=4
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    return figure
