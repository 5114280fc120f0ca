"""How the bound rises over the auxiliary variables of a refinement."""

from typing import Any

import matplotlib.figure
import numpy as np

from tfp_refine.plotting import grid


def elbo_staircase(staircase: Any) -> matplotlib.figure.Figure:
    """Plots the bound against optimization steps (Havasi et al., Fig. 2).

    Args:
        staircase: `RefinedEnsemble.history`, or a dict of lists with its
            `trace_step`, `trace_elbo`, `elbo_init` and `elbo_aux`. Nats.

    Returns:
        figure: `matplotlib.figure.Figure`.
    """
    steps = np.asarray(staircase["trace_step"])
    trace = np.asarray(staircase["trace_elbo"])
    after = np.asarray(staircase["elbo_aux"])
    mean_field = np.mean(staircase["elbo_init"])
    ends = steps[-1] * np.arange(1, after.shape[1] + 1) / after.shape[1]
    figure, axes = grid.panel(6.4, 4.0)
    for index, member in enumerate(trace):
        label = "single members, minibatches" if index == 0 else None
        axes.plot(steps, member, color="0.8", linewidth=0.8, label=label)
    axes.plot(steps, trace.mean(axis=0), color="C0", label="mean of members")
    axes.errorbar(
        ends,
        after.mean(axis=0),
        yerr=2 * after.std(axis=0, ddof=1) / np.sqrt(len(after))
        if len(after) > 1
        else None,
        fmt="o",
        color="C1",
        markersize=4,
        capsize=3,
        label="evaluation, ± 2 standard errors",
    )
    axes.axhline(
        mean_field,
        color="C3",
        linestyle="--",
        label="mean-field VI",
    )
    for end in ends[:-1]:
        axes.axvline(end, color="0.9", linewidth=0.8, zorder=0)
    # Steps that overshoot at first would hide all others.
    height = after.max() - mean_field
    axes.set_ylim(mean_field - 0.4 * height, after.max() + 0.15 * height)
    axes.set_xlabel("optimization steps, over all auxiliary variables")
    axes.set_ylabel("ELBO (nats)")
    axes.set_title("The bound over the auxiliary variables")
    axes.legend(loc="lower right", fontsize="small")
    return figure
