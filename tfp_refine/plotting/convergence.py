"""How metrics on test data change during training, over several runs."""

from typing import Any

import matplotlib.figure
import numpy as np

from tfp_refine.plotting import grid


def convergence(
    curves: Any, labels: Any, log_steps: Any = True
) -> matplotlib.figure.Figure:
    """Plots metrics against training steps, a panel each.

    Lines are medians over the runs, bands go from the lowest to the highest.

    Args:
        curves: Dict from name of a method to a list of its runs, each a dict
            with `"step"`, the same for all runs, and the metrics, `[T]`.
        labels: Dict from metric to the label of its axis.
        log_steps: Whether steps are on a scale that is linear up to the second
            of them, and then logarithmic. Defaults to `True`; else linear.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no method, or one without runs.

    Reference:
        - [Rossi et al., 2019](https://arxiv.org/abs/1810.08083), figures 5-7
    """
    if not curves or not all(curves.values()):
        raise ValueError(
            "`curves` must hold methods, each with a run at least. Received: "
            f"{ {name: len(runs) for name, runs in curves.items()} }"
        )
    figure, panels = grid.row_of_panels(len(labels))
    for axes, (metric, label) in zip(panels, labels.items(), strict=True):
        finals = []
        for index, (name, runs) in enumerate(curves.items()):
            steps = np.asarray(runs[0]["step"])
            values = np.asarray([run[metric] for run in runs], np.float64)
            values = np.where(np.isfinite(values), values, np.nan)
            color = f"C{index}"
            axes.plot(steps, np.median(values, 0), color=color, label=name)
            axes.fill_between(
                steps,
                values.min(0),
                values.max(0),
                color=color,
                alpha=0.15,
                linewidth=0,
            )
            finals += [*values[:, -1], *np.median(values[:, 1:], axis=0)]
        if log_steps:
            axes.set_xscale("symlog", linthresh=max(steps[1], 1))
        axes.set_xlim(0, steps[-1])
        axes.set_xlabel("training step")
        axes.set_ylabel(label)
        low, high = np.nanmin(finals), np.nanpercentile(finals, 95)
        margin = 0.05 * (high - low) or 0.05
        axes.set_ylim(low - margin, high + margin)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    return figure
