"""Confidence and uncertainty, beside the errors that they should match."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import colors
from numpy.typing import ArrayLike

from tfp_refine import _validation
from tfp_refine.plotting import style


@style.styled
def reliability_diagram(
    bins: Mapping[str, Any], *, ax: style.Ax = None
) -> np.ndarray:
    """Plots accuracy against confidence (Guo et al., 2017, Fig. 1).

    A bar at a point is the 95% Wilson interval of its accuracy. The lower panel
    shows the fraction of predictions in each bin: the weight of its gap
    in the expected calibration error (ECE).

    Args:
        bins: Dict from name of a predictor to its `metrics.CalibrationBins`,
            or to four arrays in their order: counts, `[K]`, accuracy, `[K]`,
            confidence, `[K]`, edges, `[K + 1]`. `K` may differ. Where a count
            is 0, accuracy and confidence are not read.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of accuracies and of fractions, `[2]`.

    Raises:
        ValueError: If `bins` is empty, or the arrays of a predictor do not
            fit.

    Example:

    ```python
    from tfp_refine import plotting

    bins = tfp_refine.metrics.calibration_bins(
        [0, 1], [[0.9, 0.1], [0.6, 0.4]]
    )
    axes = plotting.reliability_diagram({"VI": bins})
    ```
    """
    style.check("bins", bins, "at least one predictor")
    checked = {name: _checked(name, arrays) for name, arrays in bins.items()}
    panels = style.panels(
        ax, 2, 1, width=5.2, height=3.3, sharex=True, height_ratios=[3, 1]
    )
    gaps, shares = panels
    gaps.plot([0, 1], [0, 1], **style.REFERENCE, label="calibrated")
    for index, (name, arrays) in enumerate(checked.items()):
        counts, accuracy, confidence, edges = arrays
        fractions = counts / counts.sum()
        used = counts > 0
        error = np.sum((fractions * np.abs(accuracy - confidence))[used])
        look = style.series(index)
        gaps.errorbar(
            confidence[used],
            accuracy[used],
            yerr=_interval(accuracy[used], counts[used]),
            **look,
            elinewidth=0.8,
            label=f"{name} (ECE {100 * error:.2f}%)",
        )
        shares.stairs(fractions, edges, **style.outline(index))
    gaps.set_xlim(-0.02, 1.02)
    gaps.set_ylim(-0.02, 1.02)
    style.label(panels, "confidence (probability)", "accuracy (fraction)")
    shares.set_ylabel("predictions\n(fraction)")
    shares.set_ylim(bottom=0)
    style.legend_above(gaps, "Calibration error (ECE): lower is better")
    return panels


@style.styled
def entropy_cdf(entropies: style.Curves, *, ax: style.Ax = None) -> np.ndarray:
    """Plots cumulative distributions of predictive entropies.

    A panel for each data set. On data of unseen classes a good predictor's
    curve stays low, and rises at the right: it is rarely sure. On known data it
    rises at the left (Louizos and Welling, 2017, Figs. 2 and 3).

    Args:
        entropies: Dict from name of a data set to a dict from name of a
            predictor to the predictive entropies of its examples, nats, `[N]`.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of each data set, `[sets]`.

    Raises:
        ValueError: If there is no data set, or a predictor has no entropies.

    Example:

    ```python
    from tfp_refine import plotting

    rng = np.random.default_rng(0)
    known, unseen = rng.beta(1, 5, size=200), rng.beta(5, 1, size=200)
    axes = plotting.entropy_cdf({"known": {"VI": known}, "new": {"VI": unseen}})
    ```
    """
    highest = _highest(entropies, "data sets, each with predictors")
    most = max(map(len, entropies.values()))
    panels = style.panels(
        ax, len(entropies), sharey=True, height=3.0 + 0.2 * most
    )
    style.label(
        panels, "predictive entropy (nats)", "examples below (fraction)"
    )
    for axes, (name, curves) in zip(panels, entropies.items(), strict=True):
        for index, (predictor, entropy) in enumerate(curves.items()):
            axes.ecdf(
                entropy,
                **style.series(index, np.size(entropy)),
                label=f"{predictor}, mean {np.mean(entropy):.2f}",
            )
        axes.set_xlim(0.0, highest)
        style.legend_above(axes, name)
    return panels


@style.styled
def entropy_histogram(
    entropies: style.Curves, num_bins: int = 30, *, ax: style.Ax = None
) -> np.ndarray:
    """Plots histograms of predictive entropies, a panel for each predictor.

    A good predictor has the filled histogram on the left, and the others on
    the right. All panels have the same bins and axes. Fractions are on a log
    scale: known data are often nearly all in the first bin.

    Args:
        entropies: Dict from name of a predictor to a dict from name of a data
            set to the predictive entropies of its examples, nats, `[N]`. The
            first data set is in-distribution, and filled; sizes may differ.
        num_bins: Number of bins between 0 and the greatest entropy of all.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of each predictor, `[predictors]`.

    Raises:
        ValueError: If there is no predictor, or one without entropies.

    Example:

    ```python
    from tfp_refine import plotting

    rng = np.random.default_rng(0)
    known, unseen = rng.beta(1, 5, size=200), rng.beta(5, 1, size=200)
    axes = plotting.entropy_histogram({"VI": {"known": known, "new": unseen}})
    ```
    """
    highest = _highest(entropies, "predictors, each with data sets")
    _validation.positive_integer("num_bins", num_bins)
    edges = np.linspace(0.0, highest, num_bins + 1)
    panels = style.panels(
        ax, len(entropies), 1, width=6.4, height=2.2, sharex=True, sharey=True
    )
    style.label(
        panels, "predictive entropy (nats)", "examples\n(fraction, log)"
    )
    for axes, (name, sets) in zip(panels, entropies.items(), strict=True):
        for index, (set_name, entropy) in enumerate(sets.items()):
            counts, _ = np.histogram(entropy, edges)
            label = f"{set_name}, mean {np.mean(entropy):.2f}"
            look = style.outline(index - 1)
            if not index:
                look = {"fill": True, "color": "0.75"}
            axes.stairs(counts / np.size(entropy), edges, **look, label=label)
        axes.set_yscale("log")
        axes.set_xlim(edges[0], edges[-1])
        axes.set_title(name)
        style.legend_beside(axes)
    return panels


@style.styled
def integration_errors(
    means: ArrayLike,
    scales: ArrayLike,
    probit: ArrayLike,
    mc: ArrayLike,
    num_samples: int = 20,
    *,
    ax: style.Ax = None,
) -> np.ndarray:
    """Plots the errors of the probit and of Monte Carlo, for two classes.

    Two maps over the mean and the standard deviation of the logit, and the
    errors against the number of draws (Kristiadi et al., 2022, Fig. 2).

    Args:
        means: Means of the logit, `[M]`.
        scales: Its standard deviations, `[K]`.
        probit: Absolute errors of the probit's closed form, `[M, K]`.
        mc: Standard errors of one draw, `[M, K]`; those of `S` draws are this
            over `sqrt(S)`.
        num_samples: `S` of the map.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of both maps and of the curves, `[3]`.

    Raises:
        ValueError: If an array has another shape, or a number that is not
            finite.

    Example:

    ```python
    from tfp_refine import plotting

    means, scales = np.linspace(-4.0, 4.0, 9), np.linspace(0.1, 3.0, 8)
    errors = np.full((9, 8), 0.01)
    axes = plotting.integration_errors(means, scales, errors, 3 * errors)
    ```
    """
    means = _validation.array("means", means, None)
    scales = _validation.array("scales", scales, None)
    shape = len(means), len(scales)
    probit = _validation.array("probit", probit, *shape)
    mc = _validation.array("mc", mc, *shape)
    _validation.positive_integer("num_samples", num_samples)
    name = f"Monte Carlo, {num_samples} draws"
    maps = {"probit": probit, name: mc / np.sqrt(num_samples)}
    panels = style.panels(ax, 3, width=4.0)
    highest = max(map(np.max, maps.values()))
    norm = colors.LogNorm(highest / 1e3, highest)
    for axes, (name, errors) in zip(panels, maps.items(), strict=False):
        image = axes.pcolormesh(
            means, scales, np.maximum(errors.T, norm.vmin), norm=norm
        )
        axes.set_title(name)
        axes.set_xlabel("mean of the logit")
        axes.set_ylabel("standard deviation of the logit")
    label = "error of the probability\nlower is better"
    panels[1].figure.colorbar(image, ax=panels[1], label=label, extend="min")
    axes = panels[2]
    draws = np.logspace(0.0, 4.0, 50)
    for name, reduce, line in (("mean", np.mean, "-"), ("worst", np.max, ":")):
        for method, error, color in (
            ("Monte Carlo", reduce(mc) / np.sqrt(draws), style.COLORS[0]),
            ("probit", np.full(len(draws), reduce(probit)), style.COLORS[1]),
        ):
            axes.plot(
                draws, error, line, color=color, label=f"{method}, {name}"
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("draws (count)")
    axes.set_ylabel(label)
    style.legend_above(axes, "over all logits", ncols=2)
    return panels


def _highest(entropies, wanted):
    """Returns the greatest entropy, or 1 if all are 0."""
    style.check("entropies", entropies, wanted, nested=True)
    for name, inner in entropies.items():
        style.check(f"entropies[{name!r}]", inner, "entropies", nested=True)
    return (
        max(np.max(v) for inner in entropies.values() for v in inner.values())
        or 1.0
    )


def _interval(accuracy, counts, z=1.96):
    """Returns how far the Wilson interval reaches down and up, `[2, K]`."""
    center = (accuracy + z**2 / (2 * counts)) / (1 + z**2 / counts)
    variance = accuracy * (1 - accuracy) / counts + z**2 / (4 * counts**2)
    half = z * np.sqrt(variance) / (1 + z**2 / counts)
    # At accuracies of 0 and 1 rounding may leave -1e-17.
    reach = [accuracy - (center - half), center + half - accuracy]
    return np.maximum(reach, 0.0)


def _checked(name, arrays):
    """Returns the arrays of a predictor as float64."""
    arrays = [np.asarray(array, dtype=np.float64) for array in arrays]
    shapes = [array.shape for array in arrays]
    size = arrays[0].size
    if shapes != [(size,), (size,), (size,), (size + 1,)]:
        raise ValueError(
            "`bins` must hold counts, accuracy and confidence of one length, "
            f"and one more edge. Received: {name!r} with shapes {shapes}"
        )
    return arrays
