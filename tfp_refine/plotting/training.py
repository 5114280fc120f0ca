"""Metrics and bounds during training."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from tfp_refine import _validation
from tfp_refine.plotting import style


@style.styled
def learning_curves(
    history: Mapping[str, Sequence[float]],
    x_label: str = "epoch",
    *,
    ax: style.Ax = None,
) -> np.ndarray:
    """Plots the history of a fit, one panel for each metric.

    Args:
        history: Dict from metric to its values, one for each epoch, as in
            `keras.callbacks.History.history`. `"val_" + metric` joins the
            panel of `metric`. Values that are not finite leave a gap.
        x_label: Name of the count along the horizontal axis, from 1.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of each metric, `[metrics]`.

    Raises:
        ValueError: If there are no metrics, or one has no values.

    Example:

    ```python
    from tfp_refine import plotting

    fit = model.fit(x_train, y_train, validation_split=0.2, epochs=20)
    axes = plotting.learning_curves(fit.history)
    ```
    """
    style.check("history", history, "metrics, each with values", nested=True)
    history = {name: style.finite(v) for name, v in history.items()}
    _validation.instance("x_label", x_label, str, "a string")
    metrics = list(dict.fromkeys(n.removeprefix("val_") for n in history))
    panels = style.panels(ax, len(metrics), 3, height=2.8)
    style.label(panels, x_label)
    for axes, metric in zip(panels, metrics, strict=True):
        for index, (name, kind) in enumerate(
            ((metric, "training"), (f"val_{metric}", "validation"))
        ):
            if name in history:
                steps = np.arange(1, len(history[name]) + 1)
                look = style.series(index, len(steps))
                axes.plot(steps, history[name], **look, label=kind)
        axes.set_title(metric)
        axes.set_ylabel(style.LABELS.get(metric, metric))
        axes.xaxis.get_major_locator().set_params(integer=True)
        if f"val_{metric}" in history:
            axes.legend(frameon=True)
    return panels


@style.styled
def convergence(
    curves: Mapping[str, Sequence[Mapping[str, Any]]],
    labels: Mapping[str, str],
    log_steps: bool = True,
    *,
    ax: style.Ax = None,
) -> np.ndarray:
    """Plots metrics against training steps (Rossi et al., 2019, Figs. 5-7).

    Lines are medians over the runs, bands go from the lowest to the highest.

    Args:
        curves: Dict from name of a method to a list of its runs, each a dict
            with `"step"`, the same for all runs, and the metrics, `[T]`.
        labels: Dict from metric to the label of its axis.
        log_steps: Whether steps are on a scale that is linear up to the second
            of them, and then logarithmic, if the last is ten times that.
            Defaults to `True`; else linear.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of each metric, `[metrics]`.

    Raises:
        ValueError: If there is no method, or one without runs.

    Example:

    ```python
    from tfp_refine import plotting

    steps = np.arange(0, 1000, 100)
    runs = [{"step": steps, "nll": c + 1 / (1 + steps)} for c in (0.4, 0.5)]
    axes = plotting.convergence({"I-BLM": runs}, {"nll": "test NLL (nats)"})
    ```
    """
    style.check("curves", curves, "methods, each with runs", nested=True)
    _validation.instance("labels", labels, Mapping, "a dict of labels")
    for name, runs in curves.items():
        runs = dict(enumerate(runs))
        keys = ("step", *labels)
        style.check(f"curves[{name!r}]", runs, "runs", keys=keys)
    panels = style.panels(ax, len(labels), len(labels), margin=1.6)
    for axes, (metric, label) in zip(panels, labels.items(), strict=True):
        shown: list[float] = []
        medians: list[float] = []
        for index, (name, runs) in enumerate(curves.items()):
            steps = np.asarray(runs[0]["step"])
            values = style.finite([run[metric] for run in runs])
            look = style.series(index, len(steps))
            median = np.median(values, axis=0)
            axes.plot(steps, median, **look, label=name)
            fill = {"color": look["color"], "alpha": 0.15, "linewidth": 0}
            axes.fill_between(steps, values.min(0), values.max(0), **fill)
            shown += [*values[:, -1], *median[1:]]
            medians += [*median]
        axes.margins(x=0.02)
        if log_steps:
            _scale_steps(axes, steps)
        axes.set_xlabel("training step")
        axes.set_ylabel(label)
        if np.any(np.isfinite(shown)):
            low, high = np.nanmin(shown), np.nanpercentile(shown, 95)
            # High values, as first ones are, may hide all others.
            lowest, highest = np.nanmin(medians), np.nanmax(medians)
            if highest - lowest <= 2.0 * (high - low):
                low, high = min(low, lowest), max(high, highest)
            margin = 0.05 * (high - low) or 0.05
            axes.set_ylim(low - margin, high + margin)
    style.legend_beside(panels)
    return panels


def _scale_steps(axes, steps):
    """Has a logarithmic axis of steps, with ticks, if there is a decade."""
    first, last = max(steps[1], 1), steps[-1]
    if last < 10 * first:
        return
    axes.set_xscale("symlog", linthresh=first)
    if last < 100 * first:  # powers of ten are too few
        powers = 10 ** np.arange(np.log10(first) // 1, np.log10(last))
        ticks = np.outer(powers, (1, 2, 5)).ravel()
        axes.set_xticks([0, *ticks[(first <= ticks) & (ticks <= last)]])
        axes.xaxis.set_major_formatter(ticker.ScalarFormatter())
        axes.minorticks_off()


@style.styled
def memorization(
    curves: style.Curves, chance: float, *, ax: style.Ax = None
) -> np.ndarray:
    """Plots accuracies on random labels, on training and on test images.

    Random labels cannot be learned: a training accuracy above chance is memory
    (Zhang et al., 2017; Louizos and Welling, 2017, appendix A).

    Args:
        curves: Dict from name of a predictor to a dict with `"step"`,
            `"train_accuracy"` and `"test_accuracy"`, each `[T]`.
        chance: Accuracy of a guess.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of both sets, `[2]`.

    Raises:
        ValueError: If there is no curve.

    Example:

    ```python
    from tfp_refine import plotting

    step, chance = np.arange(0, 1000, 100), np.full(10, 0.1)
    curve = {"step": step, "train_accuracy": chance, "test_accuracy": chance}
    axes = plotting.memorization({"VI": curve}, chance=0.1)
    ```
    """
    keys = ("step", "train_accuracy", "test_accuracy")
    style.check("curves", curves, "predictors", keys=keys)
    _validation.proportion("chance", chance)
    panels = style.panels(ax, 2, margin=1.6, sharey=True)
    y = "accuracy on random labels (fraction)\nabove chance: memorized"
    style.label(panels, "training step", y)
    titles = {"train": "training set", "test": "test set"}
    for axes, (name, title) in zip(panels, titles.items(), strict=True):
        style.lines(axes, curves, "step", f"{name}_accuracy")
        axes.axhline(chance, **style.REFERENCE, label="chance")
        axes.set_title(title)
        axes.set_ylim(-0.03, 1.03)
    style.legend_beside(panels)
    return panels


@style.styled
def elbo_staircase(
    staircase: Mapping[str, ArrayLike], *, ax: Axes | None = None
) -> Axes:
    """Plots the bound against optimization steps (Havasi et al., Fig. 2).

    Args:
        staircase: `RefinedEnsemble.history`, or a dict of lists with its
            `steps`, `trace_step`, `trace_elbo`, `elbo_init` and `elbo_aux`.
            Nats.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes`.

    Example:

    ```python
    from tfp_refine import plotting

    ensemble = tfp_refine.refine(model, x_train, y_train, seed=1)
    axes = plotting.elbo_staircase(ensemble.history)
    ```
    """
    keys = ("steps", "trace_step", "trace_elbo", "elbo_init", "elbo_aux")
    style.check_entries("staircase", staircase, keys)
    steps, trace, after = (
        np.asarray(staircase[name])
        for name in ("trace_step", "trace_elbo", "elbo_aux")
    )
    mean_field = np.mean(staircase["elbo_init"])
    ends = np.cumsum(staircase["steps"])
    (axes,) = style.panels(ax, 1, width=6.4, height=4.0)
    for end in ends[:-1]:
        axes.axvline(end, color="0.9", linewidth=0.8, zorder=0)
    for index, member in enumerate(trace):
        label = "single members, minibatches" if index == 0 else None
        axes.plot(steps, member, color="0.8", linewidth=0.8, label=label)
    blue, orange, red, *_ = style.COLORS
    axes.plot(steps, trace.mean(axis=0), color=blue, label="mean of members")
    error, label = None, "evaluation"
    if len(after) > 1:
        error = 2 * after.std(axis=0, ddof=1) / np.sqrt(len(after))
        label = "evaluation, ± 2 standard errors"
    look = {"fmt": "D", "color": orange, "markeredgecolor": "black"}
    axes.errorbar(ends, after.mean(axis=0), error, **look, label=label)
    axes.axhline(mean_field, color=red, linestyle="--", label="mean-field VI")
    # Steps that overshoot at first would hide all others.
    height = after.max() - mean_field
    axes.set_ylim(mean_field - 0.4 * height, after.max() + 0.15 * height)
    axes.set_xlabel("optimization steps, over all auxiliary variables")
    axes.set_ylabel(style.LABELS["elbo"])
    style.legend_above(axes, "The bound over the auxiliary variables", ncols=2)
    return axes
