"""How metrics change during training."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib import figure as figure_lib

_MAX_COLUMNS = 3


def learning_curves(
    history: dict[str, np.ndarray] | None, x_label: Any = "epoch"
) -> matplotlib.figure.Figure:
    """Plots the history of a fit, one panel for each metric.

    Args:
        history: Dict from metric to its values, one for each epoch, as in
            `keras.callbacks.History.history`. `"val_" + metric` joins the
            panel of `metric`. Values that are not finite leave a gap.
        x_label: What is counted along the horizontal axis, from 1.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there are no metrics, or one has no values.
    """
    if not history or not all(map(len, history.values())):
        raise ValueError(
            "`history` must hold metrics, each with at least one value. "
            f"Received: { {name: len(v) for name, v in history.items()} }"
        )
    metrics = list(dict.fromkeys(n.removeprefix("val_") for n in history))
    num_rows = math.ceil(len(metrics) / _MAX_COLUMNS)
    num_columns = math.ceil(len(metrics) / num_rows)
    figure = figure_lib.Figure(
        figsize=(1.2 + 3.2 * num_columns, 0.4 + 2.6 * num_rows),
        layout="constrained",
    )
    panels = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
    for axes, metric in zip(panels, metrics, strict=False):
        for name, label, color in (
            (metric, "training", "C0"),
            (f"val_{metric}", "validation", "C1"),
        ):
            if name in history:
                values = np.asarray(history[name], dtype=np.float64)
                values = np.where(np.isfinite(values), values, np.nan)
                axes.plot(
                    np.arange(1, len(values) + 1),
                    values,
                    color=color,
                    marker="o" if len(values) <= 30 else None,
                    markersize=3,
                    label=label,
                )
        axes.set_title(metric, fontsize="medium")
        axes.set_xlabel(x_label)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if f"val_{metric}" in history:
            axes.legend()
    for axes in panels[len(metrics) :]:
        axes.remove()
    return figure
