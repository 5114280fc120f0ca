"""Metrics of predictors against one number, a line each."""

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib import figure as figure_lib

from tfp_refine.plotting import grid

_LABELS = {
    "mmd": "squared MMD to the reference",
    "nll": "test NLL (nats)",
    "elbo": "ELBO (nats)",
    "seconds": "seconds",
}
_SHIFT_LABELS = {
    "nll": "NLL (nats)",
    "accuracy": "accuracy",
    "ece": "calibration error",
    "entropy": "mean predictive entropy (nats)",
}


def attack_curves(
    curves: Any, x_label: Any = "strength of the perturbation"
) -> matplotlib.figure.Figure:
    """Plots accuracy and mean entropy against the strength of an attack.

    A predictor that knows what it does not know becomes unsure as it becomes
    wrong.

    Args:
        curves: Dict from name of a predictor to a dict with `"epsilon"`,
            `"accuracy"` and `"entropy"` (nats), each `[E]`.
        x_label: What `"epsilon"` is.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no curve.

    Reference:
        - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961),
          figures 4 and 5
    """
    _check(curves)
    figure, panels = grid.row_of_panels(2)
    for axes, key, label in zip(
        panels,
        ("accuracy", "entropy"),
        ("accuracy", "mean predictive entropy (nats)"),
        strict=True,
    ):
        for name, curve in curves.items():
            axes.plot(curve["epsilon"], curve[key], marker="o", label=name)
        axes.set_xlabel(x_label)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0.0)
    panels[0].legend()
    return figure


def depth_sweep(curves: Any, y_label: Any) -> matplotlib.figure.Figure:
    """Plots a metric against the number of hidden layers.

    Args:
        curves: Dict from name of a predictor to a dict with `"depth"`, `[D]`,
            and the metric's values on each split, `"values"`, `[D, splits]`.
        y_label: Name of the metric and its units.

    Returns:
        figure: `matplotlib.figure.Figure`; means with bars of one standard
        error.

    Raises:
        ValueError: If there is no curve.

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX),
          figure 2
    """
    _check(curves)
    figure, axes = grid.panel(5.6, 3.6)
    for name, curve in curves.items():
        values = np.asarray(curve["values"], np.float64)
        splits = values.shape[1]
        error = (
            values.std(axis=1, ddof=1) / np.sqrt(splits) if splits > 1 else None
        )
        axes.errorbar(
            curve["depth"],
            values.mean(axis=1),
            yerr=error,
            marker="o",
            capsize=3,
            label=name,
        )
    axes.set_xlabel("hidden layers")
    axes.set_xticks(sorted({d for c in curves.values() for d in c["depth"]}))
    axes.set_ylabel(y_label)
    axes.legend()
    return figure


def flow_length(
    curves: Any, references: Any = None
) -> matplotlib.figure.Figure:
    """Plots metrics against the number of flows, a panel for each metric.

    Args:
        curves: Dict from name of a refinement to a dict of `"length"`, numbers
            of flows, and of metrics by their names, each `[L]`.
        references: Dict from name of another posterior to a dict of its
            metrics, drawn as horizontal lines. Defaults to none.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no curve.

    Reference:
        - [Kristiadi et al., 2022](https://arxiv.org/abs/2205.10041), figure 7
    """
    _check(curves)
    names = [n for n in next(iter(curves.values())) if n != "length"]
    figure, panels = grid.row_of_panels(len(names))
    for axes, metric in zip(panels, names, strict=True):
        for name, curve in curves.items():
            axes.plot(curve["length"], curve[metric], marker="o", label=name)
        for index, (name, values) in enumerate((references or {}).items()):
            if metric in values:
                axes.axhline(
                    values[metric],
                    color=f"C{len(curves) + index}",
                    linestyle=":",
                    label=name,
                )
        axes.set_xlabel("flows")
        axes.set_ylabel(_LABELS.get(metric, metric))
    panels[0].set_yscale("log")
    panels[0].legend(fontsize="small")
    return figure


def memorization(curves: Any, chance: Any) -> matplotlib.figure.Figure:
    """Plots accuracies on random labels: on training and on test images.

    Nothing is to be learned: a training accuracy above chance is memory.

    Args:
        curves: Dict from name of a predictor to a dict with `"step"`,
            `"train_accuracy"` and `"test_accuracy"`, each `[T]`.
        chance: Accuracy of a guess.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no curve.

    References:
        - [Zhang et al., 2017](https://arxiv.org/abs/1611.03530)
        - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961),
          appendix A
    """
    _check(curves)
    figure, panels = grid.row_of_panels(2, sharey=True)
    for axes, key, title in zip(
        panels,
        ("train_accuracy", "test_accuracy"),
        ("training set", "test set"),
        strict=True,
    ):
        for name, curve in curves.items():
            axes.plot(curve["step"], curve[key], label=name)
        axes.axhline(chance, color="0.5", linestyle=":", label="chance")
        axes.set_title(title, loc="left", fontsize="medium")
        axes.set_xlabel("training step")
        axes.set_ylim(0.0, 1.03)
    panels[0].set_ylabel("accuracy on random labels")
    panels[0].legend()
    return figure


def pruning_curve(curves: Any) -> matplotlib.figure.Figure:
    """Plots the test likelihood as more and more units are removed.

    Args:
        curves: Dict from name of a predictor to a dict with the numbers of
            removed units, `"removed"`, and the negative log likelihoods in nats
            without them, `"nll"`; and with `"pruned"`, the number of units that
            the posterior does not use, marked by a line.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no curve.

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX),
          figure 3
    """
    _check(curves)
    figure, axes = grid.panel(5.6, 3.6)
    for index, (name, curve) in enumerate(curves.items()):
        color = f"C{index}"
        axes.plot(
            curve["removed"], curve["nll"], "o-", color=color, label=name, ms=4
        )
        axes.axvline(
            curve["pruned"],
            color=color,
            linestyle=":",
            label=f"unused by its posterior: {curve['pruned']}",
        )
    axes.set_yscale("log")
    axes.set_xlabel("hidden units removed, by signal-to-noise ratio")
    axes.set_ylabel("test negative log likelihood (nats)")
    axes.legend(fontsize="small")
    return figure


def shift_curves(curves: Any) -> matplotlib.figure.Figure:
    """Plots metrics against the strength of each shift.

    A column for each shift, a row for each metric.

    Args:
        curves: Dict from name of a shift to a dict from name of a predictor to
            a dict of `"strength"` and of metrics by their names, each `[S]`.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no shift, or one without predictors.

    Reference:
        - [Kristiadi et al., 2022](https://arxiv.org/abs/2205.10041), figure 5
    """
    if not curves or not all(curves.values()):
        raise ValueError(
            "`curves` must hold shifts, each with predictors. "
            f"Received: curves={curves!r}"
        )
    first = next(iter(next(iter(curves.values())).values()))
    names = [name for name in first if name != "strength"]
    figure = figure_lib.Figure(
        figsize=(3.0 + 3.8 * len(curves), 2.6 * len(names)),
        layout="constrained",
    )
    panels = figure.subplots(
        len(names), len(curves), sharex="col", sharey="row", squeeze=False
    )
    for column, (shift, predictors) in enumerate(curves.items()):
        for row, metric in enumerate(names):
            axes = panels[row, column]
            for predictor, curve in predictors.items():
                axes.plot(
                    curve["strength"],
                    curve[metric],
                    marker="o",
                    markersize=3,
                    label=predictor,
                )
        panels[0, column].set_title(shift, loc="left", fontsize="medium")
        panels[-1, column].set_xlabel("strength")
    for row, metric in enumerate(names):
        panels[row, 0].set_ylabel(_SHIFT_LABELS.get(metric, metric))
    # Beside the panels: inside, it would hide some curve.
    handles = panels[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right upper", fontsize="small")
    return figure


def _check(curves):
    if not curves:
        raise ValueError("`curves` must not be empty. Received: {}")
