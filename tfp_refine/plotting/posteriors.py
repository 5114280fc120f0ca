"""Posteriors of weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from tfp_refine import _validation
from tfp_refine.plotting import style

_LEVELS = (0.99, 0.9, 0.5)  # Mass inside the contours.
_NUM_BINS = 40


@style.styled
def densities(
    grid: ArrayLike, curves: Mapping[str, ArrayLike], *, ax: Axes | None = None
) -> Axes:
    """Plots densities of one weight (Havasi et al., Fig. 3).

    Args:
        grid: Values of the weight, `[G]`.
        curves: Dict from name to density, `[G]`; the first is the exact
            posterior, and filled.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes`.

    Raises:
        ValueError: If there is no curve, or an array is not of finite numbers
            and of this shape.

    Example:

    ```python
    from tfp_refine import plotting

    grid = np.linspace(-3.0, 3.0, 100)
    exact, wide = np.exp(-(grid**2)), np.exp(-(grid**2) / 4)
    axes = plotting.densities(grid, {"exact": exact, "VI": wide})
    ```
    """
    style.check("curves", curves, "densities")
    grid = _validation.array("grid", grid, None)
    for name, density in curves.items():
        _validation.array(f"curves[{name!r}]", density, len(grid))
    (axes,) = style.panels(ax, 1, width=6.4, height=3.6)
    exact, *others = curves.items()
    axes.fill_between(grid, exact[1], color="0.85", label=exact[0])
    for index, (name, density) in enumerate(others):
        look = style.series(index, len(grid))
        axes.plot(grid, density, **look, label=name)
    shown = grid[np.max(list(curves.values()), axis=0) > 1e-3]
    axes.set_xlim(shown[0], shown[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("value of the weight")
    axes.set_ylabel("density (per unit of the weight)")
    style.legend_beside(axes)
    return axes


@style.styled
def posterior_contours(
    first: ArrayLike,
    second: ArrayLike,
    log_density: ArrayLike,
    samples: Mapping[str, ArrayLike],
    *,
    ax: style.Ax = None,
) -> np.ndarray:
    """Plots histograms of samples, with the true contours over them.

    A panel for each posterior. Lines hold 50, 90 and 99% of the true mass
    (Kristiadi et al., 2022, Fig. 6).

    Args:
        first: Values of the first weight, evenly spaced, `[G]`.
        second: Values of the second weight, likewise, `[H]`.
        log_density: Logarithm of the true density there, but for a constant,
            nats, `[G, H]`.
        samples: Dict from name of a posterior to its samples, `[S, 2]`.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of each posterior, `[posteriors]`.

    Raises:
        ValueError: If there are no samples, or an array is not of this shape,
            or of no finite numbers.

    Example:

    ```python
    from tfp_refine import plotting

    grid = np.linspace(-3.0, 3.0, 50)
    log_density = -0.5 * (grid[:, None] ** 2 + grid**2)
    samples = np.random.default_rng(0).normal(size=(1000, 2))
    axes = plotting.posterior_contours(
        grid, grid, log_density, {"NUTS": samples}
    )
    ```
    """
    style.check("samples", samples, "posteriors")
    first = _validation.array("first", first, None)
    second = _validation.array("second", second, None)
    log_density = _validation.array(
        "log_density", log_density, len(first), len(second), finite=False
    )
    highest = _validation.finite("log_density.max()", np.max(log_density))
    density = np.exp(log_density - highest)
    low, high = np.array([first[[0, -1]], second[[0, -1]]]).T
    panels = style.panels(ax, len(samples))
    style.label(panels, "first weight", "second weight")
    for axes, (name, drawn) in zip(panels, samples.items(), strict=True):
        drawn = np.asarray(drawn)
        inside = np.all((low <= drawn) & (drawn <= high), axis=-1)
        if np.any(inside):
            box = np.stack([low, high], axis=-1)
            counts, *edges = np.histogram2d(*drawn[inside].T, 30, box)
            shown = np.ma.masked_equal(counts.T, 0)
            # The darkest blues would hide the lines.
            ends = {"vmin": -0.2 * counts.max(), "vmax": 1.6 * counts.max()}
            axes.pcolormesh(*edges, shown, **ends, cmap="Blues")
        look = {"levels": _levels(density), "linewidths": 0.8}
        axes.contour(first, second, density.T, **look, colors="black")
        outside = np.mean(~inside)
        axes.set_title(f"{name}, {outside:.1%} outside" if outside else name)
    return panels


@style.styled
def posterior_histograms(
    weights: style.NestedCurves, *, ax: style.Ax = None
) -> np.ndarray:
    """Plots histograms of the posteriors' means and scales, a row a tensor.

    Weights that the data say nothing about are where the prior has them. Bins
    at both ends hold all values beyond them (Tomczak et al., 2021, Fig. 1).

    Args:
        weights: Dict from name of a tensor to a dict from name of a posterior
            to a dict with `"loc"` and `"scale"` (a standard deviation) of its
            weights, each `[D]`.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of means and scales, `[tensors, 2]`.

    Raises:
        ValueError: If there is no tensor, or one without posteriors.

    Example:

    ```python
    from tfp_refine import plotting

    rng = np.random.default_rng(0)
    weights = {"loc": rng.normal(size=500), "scale": rng.uniform(size=500)}
    axes = plotting.posterior_histograms({"kernel 1": {"VI": weights}})
    ```
    """
    style.check(
        "weights", weights, "tensors, each with posteriors", nested=True
    )
    for name, inner in weights.items():
        keys = ("loc", "scale")
        style.check(f"weights[{name!r}]", inner, "posteriors", keys=keys)
    panels = style.panels(
        ax, 2 * len(weights), 2, height=2.3, margin=1.2, sharex="col"
    ).reshape(-1, 2)
    names = list(dict.fromkeys(n for one in weights.values() for n in one))
    for column, quantity, label in (
        (0, "loc", "posterior mean (units of the weight)"),
        (1, "scale", "log10 of the posterior standard deviation"),
    ):
        edges = _edges(weights, quantity)
        for row, (tensor, posteriors) in enumerate(weights.items()):
            axes = panels[row, column]
            for name, posterior in posteriors.items():
                values = np.clip(_values(posterior, quantity), *edges[[0, -1]])
                look = style.outline(names.index(name)) | {"histtype": "step"}
                axes.hist(values, edges, density=True, **look, label=name)
            axes.set_title(tensor)
        style.label(panels[:, column], label, "density (per unit)")
    style.legend_beside(panels[0, 1])
    return panels


@style.styled
def posterior_scatter(
    layers: style.Curves,
    prior_variances: Mapping[str, float | None] | None = None,
    *,
    ax: style.Ax = None,
) -> np.ndarray:
    """Plots log variances against means of the weights, a panel for each layer.

    Weights that the data do not need gather at mean zero and at the variance
    of the prior; in a posterior that lets biases move, those of units that
    are switched off lie far to the left (Tomczak et al., 2021, Fig. 4).

    Args:
        layers: Dict from name of a layer to a dict with the `"loc"` and
            `"scale"` of its weights, `[n]`, and the `"bias_loc"` and
            `"bias_scale"` of its biases, `[m]`, perhaps empty.
        prior_variances: Dict from name of a layer to its prior's variance, a
            line in the panel; layers without one may be missing.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of each layer, `[layers]`.

    Raises:
        ValueError: If there is no layer.

    Example:

    ```python
    from tfp_refine import plotting

    rng = np.random.default_rng(0)
    names = ("loc", "scale", "bias_loc", "bias_scale")
    layer = {name: rng.uniform(0.1, 1.0, size=50) for name in names}
    axes = plotting.posterior_scatter({"dense": layer}, {"dense": 1.0})
    ```
    """
    keys = ("loc", "scale", "bias_loc", "bias_scale")
    style.check("layers", layers, "layers", keys=keys)
    priors = {} if prior_variances is None else prior_variances
    _validation.instance("prior_variances", priors, Mapping, "a dict or None")
    count = len(layers)
    panels = style.panels(ax, count, count, width=3.0, margin=1.4, sharey=True)
    x = "posterior mean (units of the weight)"
    style.label(panels, x, "ln(posterior variance)")
    looks: list[tuple[str, str, dict[str, Any]]] = [
        ("", "weights", {"s": 2, "color": "0.65", "rasterized": True}),
        ("bias_", "biases", {"s": 12, "color": style.COLORS[2], "marker": "x"}),
    ]
    entries = {}
    for axes, (name, layer) in zip(panels, layers.items(), strict=True):
        for prefix, kind, look in looks:
            loc, scale = (
                np.ravel(layer[f"{prefix}{part}"]) for part in ("loc", "scale")
            )
            if loc.size:
                axes.scatter(loc, 2.0 * np.log(scale), label=kind, **look)
        variance = priors.get(name)
        if variance is not None:
            _validation.positive(f"prior_variances[{name!r}]", variance)
            look = {"color": style.COLORS[0], "linestyle": ":"}
            axes.axhline(np.log(variance), **look, label="prior")
        axes.set_title(name)
        handles, kinds = axes.get_legend_handles_labels()
        entries |= dict(zip(kinds, handles, strict=True))
    style.legend_beside(panels, labels=[*entries], handles=[*entries.values()])
    return panels


def _levels(density):
    """Returns the densities above which parts of the mass lie, rising."""
    falling = np.sort(density, axis=None)[::-1]
    mass = np.cumsum(falling) / np.sum(falling)
    return [falling[np.searchsorted(mass, level)] for level in _LEVELS]


def _values(posterior, quantity):
    """Returns means, or common logarithms of scales."""
    values = np.asarray(posterior[quantity], np.float64)
    return (
        np.log10(np.maximum(values, 1e-12)) if quantity == "scale" else values
    )


def _edges(weights, quantity):
    """Returns edges of bins that show all but the farthest values."""
    every = [p for posteriors in weights.values() for p in posteriors.values()]
    values = np.concatenate([_values(p, quantity) for p in every])
    low, high = np.quantile(values, [0.005, 0.995])
    margin = 0.05 * (high - low) or 0.5
    return np.linspace(low - margin, high + margin, _NUM_BINS + 1)
