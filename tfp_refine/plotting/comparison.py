"""Metrics of several predictors: ranked, or against one number."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from tfp_refine import _validation
from tfp_refine.plotting import style

# Median deviations from the median, beyond which scores are outliers.
_FAR = 8.0
# Units of shifts that have no severity from 1 to 5.
_STRENGTHS = {
    "flipped pixels": "flipped pixels (fraction)",
    "rotation": "rotation (degrees)",
}


@style.styled
def ranking(
    scores: Mapping[str, ArrayLike], label: str, *, ax: Axes | None = None
) -> Axes:
    """Plots scores as points, the lowest at the top: lower is better.

    Lines are standard deviations over the runs; small points are single runs.
    The axis ends where bad outliers would crush all other scores together; on
    its right stand the lowest and the highest score beyond, behind an arrow.

    Args:
        scores: Dict from name of a predictor to its scores, one for each run.
        label: Name and unit of the scores.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes`.

    Raises:
        ValueError: If there is no predictor, or one without scores, or a score
            is not finite.

    Example:

    ```python
    from tfp_refine import plotting

    scores = {"VI": [0.52, 0.55, 0.5], "refined VI": [0.45, 0.44, 0.47]}
    axes = plotting.ranking(scores, "test NLL (nats)")
    ```
    """
    style.check("scores", scores, "predictors, each with scores", nested=True)
    values = {
        name: _validation.array(f"scores[{name!r}]", runs).ravel()
        for name, runs in scores.items()
    }
    _check_label("label", label)
    names = sorted(values, key=lambda name: values[name].mean())
    low, high = _limits(values)
    margin = 0.04 * (high - low) or 0.05
    # Names may have several lines.
    heights = np.array([1 + name.count("\n") for name in names])
    rows = np.cumsum(heights) - (heights + 1) / 2
    height = 1.0 + 0.26 * heights.sum()
    (axes,) = style.panels(ax, 1, width=7.0, height=height)
    look = {"color": style.COLORS[0], "fmt": "o", "markersize": 5}
    beside = {"transform": axes.get_yaxis_transform(), "size": "small"}
    for row, name in zip(rows, names, strict=True):
        runs = values[name]
        axes.plot(runs, np.full(len(runs), row), ".", color="0.55")
        axes.errorbar(runs.mean(), row, xerr=_spread(runs), **look)
        axes.text(1.02, row, _beyond(runs[runs > high]), va="center", **beside)
    axes.set_xlim(low - margin, high + margin)
    axes.locator_params(axis="x", nbins=6)
    axes.set_yticks(rows, names)
    axes.set_ylim(heights.sum() - 0.5, -0.5)
    axes.set_xlabel(f"{label}; lower is better")
    axes.set_ylabel("predictor")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    return axes


def _check_label(name, value):
    _validation.instance(name, value, str, "a string")


def _spread(runs):
    """Returns the standard deviation of runs, 0 of a single one."""
    return np.std(runs, ddof=1) if len(runs) > 1 else 0.0


def _beyond(far):
    """Returns a text with the scores beyond the end of the axis, if any."""
    if not far.size:
        return ""
    ends = dict.fromkeys(f"{end:.4g}" for end in (far.min(), far.max()))
    return f"→ {' to '.join(ends)}"


def _limits(values):
    """Returns the lowest score, and the highest that is no outlier."""
    means = np.array([runs.mean() for runs in values.values()])
    middle = np.median(means)
    spreads = np.array([_spread(runs) for runs in values.values()])
    # Means may be close together where single runs are not.
    typical = max(np.median(np.abs(means - middle)), np.median(spreads))
    reach = _FAR * typical or np.inf
    runs = np.concatenate(list(values.values()))
    ends = np.concatenate([runs, means - spreads, means + spreads])
    inside = ends[np.abs(ends - middle) <= reach]
    # The best are on the axis, however far from the others.
    return min(inside.min(), runs.min()), inside.max()


@style.styled
def depth_sweep(
    curves: Mapping[str, Mapping[str, Any]],
    y_label: str,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Plots a metric against the number of hidden layers.

    Bars are standard errors over the splits (Tomczak et al., 2021, Fig. 2).

    Args:
        curves: Dict from name of a predictor to a dict with `"depth"`, `[D]`,
            and the metric's values on each split, `"values"`, `[D, splits]`.
        y_label: Name of the metric and its units.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes`.

    Raises:
        ValueError: If there is no curve.

    Example:

    ```python
    from tfp_refine import plotting

    curve = {"depth": [1, 2], "values": [[0.5, 0.6, 0.7], [0.4, 0.5, 0.4]]}
    axes = plotting.depth_sweep({"VI": curve}, "test NLL (nats)")
    ```
    """
    style.check("curves", curves, "predictors", keys=("depth", "values"))
    _check_label("y_label", y_label)
    (axes,) = style.panels(ax, 1, width=5.6, height=3.6)
    for index, (name, curve) in enumerate(curves.items()):
        values = np.asarray(curve["values"], np.float64)
        splits = values.shape[1]
        error = (
            values.std(axis=1, ddof=1) / np.sqrt(splits) if splits > 1 else None
        )
        axes.errorbar(
            curve["depth"],
            values.mean(axis=1),
            yerr=error,
            **style.series(index),
            label=name,
        )
    axes.set_xlabel("hidden layers (count)")
    axes.set_xticks(sorted({d for c in curves.values() for d in c["depth"]}))
    axes.set_ylabel(y_label)
    style.legend_beside(axes)
    return axes


@style.styled
def flow_length(
    curves: style.Curves,
    references: Mapping[str, Mapping[str, float]] | None = None,
    *,
    ax: style.Ax = None,
) -> np.ndarray:
    """Plots metrics against the number of flows, a panel for each metric.

    As Kristiadi et al. (2022), Fig. 7.

    Args:
        curves: Dict from name of a refinement to a dict of `"length"`, numbers
            of flows, and of metrics by their names, each `[L]`.
        references: Dict from name of another posterior to a dict of its
            metrics, drawn as horizontal lines. Defaults to none.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of each metric, `[metrics]`.

    Raises:
        ValueError: If there is no curve.

    Example:

    ```python
    from tfp_refine import plotting

    curves = {"refined": {"length": [1, 5, 10], "NLL": [0.5, 0.4, 0.38]}}
    axes = plotting.flow_length(curves, {"Laplace": {"NLL": 0.55}})
    ```
    """
    style.check("curves", curves, "curves", keys=("length",))
    references = {} if references is None else references
    for name, values in _validation.instance(
        "references", references, Mapping, "a dict or None"
    ).items():
        style.check_entries(f"references[{name!r}]", values)
    metrics = [n for n in next(iter(curves.values())) if n != "length"]
    panels = _panels(ax, curves, "length", "flows (count)", metrics)
    for axes, metric in zip(panels, metrics, strict=True):
        for index, (name, values) in enumerate(references.items()):
            look = style.series(len(curves) + index) | {"marker": None}
            # A line of NaN keeps the legends of all panels the same.
            axes.axhline(values.get(metric, np.nan), **look, label=name)
        if metric == "mmd":
            axes.set_yscale("log")
    style.legend_beside(panels)
    return panels


@style.styled
def attack_curves(
    curves: style.Curves,
    x_label: str = "perturbation (units of the input)",
    *,
    ax: style.Ax = None,
) -> np.ndarray:
    """Plots accuracy and mean entropy against the strength of an attack.

    The entropy of a good predictor rises as its accuracy falls (Louizos and
    Welling, 2017, Figs. 4 and 5).

    Args:
        curves: Dict from name of a predictor to a dict with `"epsilon"`,
            `"accuracy"` and `"entropy"` (nats), each `[E]`.
        x_label: Name and unit of `"epsilon"`.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of accuracy and entropy, `[2]`.

    Raises:
        ValueError: If there is no curve.

    Example:

    ```python
    from tfp_refine import plotting

    epsilon = np.linspace(0.0, 0.5, 6)
    curve = {"epsilon": epsilon, "accuracy": 0.9 - epsilon, "entropy": epsilon}
    axes = plotting.attack_curves({"VI": curve})
    ```
    """
    _check_label("x_label", x_label)
    panels = _panels(ax, curves, "epsilon", x_label, ("accuracy", "entropy"))
    for axes in panels:
        axes.set_ylim(bottom=0.0)
    style.legend_beside(panels)
    return panels


@style.styled
def shift_curves(
    curves: style.NestedCurves, *, ax: style.Ax = None
) -> np.ndarray:
    """Plots metrics against the strength of each shift.

    A column for each shift, a row for each metric (Kristiadi et al., 2022,
    Fig. 5).

    Args:
        curves: Dict from name of a shift to a dict from name of a predictor to
            a dict of `"strength"` and of metrics by their names, each `[S]`.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes`, `[metrics, shifts]`.

    Raises:
        ValueError: If there is no shift, or one without predictors.

    Example:

    ```python
    from tfp_refine import plotting

    curve = {"strength": [0, 15, 30], "NLL": [0.2, 0.5, 1.5]}
    axes = plotting.shift_curves({"rotation (degrees)": {"VI": curve}})
    ```
    """
    style.check("curves", curves, "shifts, each with predictors", nested=True)
    names = ["strength"]
    for shift, inner in curves.items():
        style.check(f"curves[{shift!r}]", inner, "predictors", keys=names)
        names = [*next(iter(inner.values()))]
    metrics = [name for name in names if name != "strength"]
    size, count = {"height": 2.7, "margin": 1.4}, len(metrics) * len(curves)
    panels = style.panels(
        ax, count, len(curves), **size, sharex="col", sharey="row"
    ).reshape(len(metrics), len(curves))
    for column, shift in zip(panels.T, curves, strict=True):
        for axes, metric in zip(column, metrics, strict=True):
            style.lines(axes, curves[shift], "strength", metric)
        column[0].set_title(shift)
        strength = _STRENGTHS.get(shift, "strength (severity, 1 to 5)")
        style.label(column, strength)
    for row, metric in zip(panels, metrics, strict=True):
        style.label(row, y=style.LABELS.get(metric, metric))
    style.legend_beside(panels[0])
    return panels


@style.styled
def pruning_curve(
    curves: Mapping[str, Mapping[str, Any]], *, ax: Axes | None = None
) -> Axes:
    """Plots the test likelihood as more and more units are removed.

    As Tomczak et al. (2021), Fig. 3.

    Args:
        curves: Dict from name of a predictor to a dict with the numbers of
            removed units, `"removed"`, and the negative log likelihoods in nats
            without them, `"nll"`; and with `"pruned"`, the number of units that
            the posterior does not use, marked by a line.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes`.

    Raises:
        ValueError: If there is no curve.

    Example:

    ```python
    from tfp_refine import plotting

    curve = {"removed": [0, 20, 40], "nll": [0.4, 0.4, 0.9], "pruned": 25}
    axes = plotting.pruning_curve({"VI": curve})
    ```
    """
    keys = ("removed", "nll", "pruned")
    style.check("curves", curves, "predictors", keys=keys)
    (axes,) = style.panels(ax, 1, width=6.8, height=3.6)
    style.lines(axes, curves, "removed", "nll")
    for index, curve in enumerate(curves.values()):
        look = style.series(index) | {"marker": None, "linewidth": 0.9}
        unused = curve["pruned"]
        axes.axvline(unused, **look, label=f"{unused} unused by its posterior")
    axes.set_yscale("log")
    axes.set_xlabel("hidden units removed (count), by signal-to-noise ratio")
    axes.set_ylabel(f"test {style.LABELS['nll']}")
    style.legend_beside(axes)
    return axes


def _panels(ax, curves, x, x_label, metrics):
    """Draws lines of metrics, a panel each."""
    style.check("curves", curves, "predictors", keys=(x, *metrics))
    panels = style.panels(ax, len(metrics), len(metrics), margin=1.4)
    for axes, metric in zip(panels, metrics, strict=True):
        style.lines(axes, curves, x, metric)
        axes.set_xlabel(x_label)
        axes.set_ylabel(style.LABELS.get(metric, metric))
    return panels
