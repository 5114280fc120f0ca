"""Look of all figures, their panels and their files."""

import math
import os
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Sized
from typing import IO
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from tfp_refine import _storage
from tfp_refine import _validation

# CIE lightness 31, 71, 45, 0, 57, 78: distinct in grey, and with deuteranopia,
# protanopia and tritanopia.
COLORS = ("#084594", "#e69f00", "#c0392b", "#000000", "#22988a", "#d0b6ee")
_LINE_STYLES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
_MARKERS = "osD^vPX"
_STYLE = {
    "axes.prop_cycle": matplotlib.cycler(color=COLORS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "errorbar.capsize": 2.5,
    "image.cmap": "cividis",
    "legend.fontsize": "small",
    "legend.borderaxespad": 0.2,
    "legend.borderpad": 0.2,
    "legend.frameon": False,
    "legend.title_fontsize": "medium",
    "lines.linewidth": 1.5,
    "lines.markersize": 4.0,
}
REFERENCE = {"color": "0.45", "linestyle": ":", "linewidth": 1.5}
# Inches: pages show a wider figure smaller, and its labels with it.
PAGE = 8.6
_LEAST_WIDTH = 2.4  # Of a panel, inches.
# Fonts have no smaller pixels.
_LEAST_DPI = 10
# Labels of axes, by the names of metrics in records and histories.
LABELS = {
    "accuracy": "accuracy (fraction)\nhigher is better",
    "ece": "calibration error (fraction)\nlower is better",
    "elbo": "ELBO (nats)\nhigher is better",
    "entropy": "mean predictive entropy (nats)",
    "kl": "KL to the prior (nats)",
    "kl_scale": "scale of the KL (factor)",
    "loss": "loss (nats per example)\nlower is better",
    "mmd": "squared MMD to the reference\nlower is better",
    "nll": "NLL (nats per example)\nlower is better",
    "seconds": "time (seconds)\nlower is better",
}

Ax = Axes | Sequence[Axes] | np.ndarray | None
Curves = Mapping[str, Mapping[str, ArrayLike]]
NestedCurves = Mapping[str, Curves]


# Decorates the functions that draw in this style.
styled = matplotlib.rc_context(_STYLE)


def series(index: int, size: int = 1) -> dict[str, Any]:
    """Returns the look of line `index`, with markers at some of its points."""
    return {
        "color": COLORS[index % len(COLORS)],
        "linestyle": _LINE_STYLES[index % len(_LINE_STYLES)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "markevery": max(1, size // 10),
    }


def outline(index: int) -> dict[str, Any]:
    """Returns the look of the outline of histogram `index`."""
    look = series(index)
    return {"linewidth": 1.5} | {k: look[k] for k in ("color", "linestyle")}


def panels(
    ax: Ax,
    count: int,
    columns: int = 3,
    *,
    width: float = 3.8,
    height: float = 3.2,
    margin: float = 0.0,
    **options: Any,
) -> np.ndarray:
    """Returns `count` axes: those given, or panels (inches) of a new figure.

    Panels are narrower than `width` where the figure has no room for them.
    """
    if ax is not None:
        given = np.asarray(ax, dtype=object).ravel()
        if given.size != count or not _are_axes(given):
            raise ValueError(
                f"`ax` must hold {count} axes. Received: {given.size} of type "
                f"{type(given.flat[0] if given.size else ax).__name__}"
            )
        return given
    if not count:
        raise ValueError(
            "`labels`, or the first of `curves`, must hold a metric. "
            "Received: none"
        )
    rows = math.ceil(count / columns)
    columns = math.ceil(count / rows)
    width = min(width, max((PAGE - margin) / columns, _LEAST_WIDTH))
    size = (margin + width * columns, height * rows)
    _, drawn = pyplot.subplots(
        *(rows, columns),
        figsize=size,
        layout="constrained",
        squeeze=False,
        **options,
    )
    for surplus in drawn.ravel()[count:]:
        surplus.remove()
    return drawn.ravel()[:count]


def _are_axes(given: np.ndarray) -> bool:
    return all(isinstance(one, Axes) for one in given.flat)


def label(axes: np.ndarray, x: str = "", y: str = "") -> None:
    """Labels axes, but for the inner ones of those that share an axis."""
    first = axes[0]
    for one in axes:
        spec = one.get_subplotspec()
        shares_x = first.get_shared_x_axes().joined(first, one)
        shares_y = first.get_shared_y_axes().joined(first, one)
        if x and (not (spec and shares_x) or spec.is_last_row()):
            one.set_xlabel(x)
        if y and (not (spec and shares_y) or spec.is_first_col()):
            one.set_ylabel(y)


def legend_beside(axes: Axes | np.ndarray, **options: Any) -> None:
    """Draws a legend on the right of the first row, where it covers no data."""
    if not isinstance(axes, Axes):
        specs = [one.get_subplotspec() for one in axes]
        axes = axes[sum(spec.is_first_row() for spec in specs if spec) - 1]
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), **options)


def legend_above(axes: Axes, title: str, **options: Any) -> None:
    """Draws a legend above axes, below a title."""
    axes.legend(
        title=title, loc="lower left", bbox_to_anchor=(0.0, 1.0), **options
    ).set_alignment("left")


def check(
    name: str,
    value: Any,
    wanted: str,
    nested: bool = False,
    keys: Collection[str] | None = None,
) -> None:
    """Checks a dict of sized values, which is not empty.

    Args:
        name: Name of the argument.
        value: Value to check.
        wanted: Description of its contents.
        nested: Whether no value may be empty.
        keys: Entries that each value, a dict, must have; `None` if they may
            be something else.

    Raises:
        ValueError: If `value` is not so.
    """
    _validation.instance(name, value, Mapping, f"a dict of {wanted}")
    sizes = {
        key: None
        if isinstance(inner, str) or not isinstance(inner, Sized)
        else len(inner)
        for key, inner in value.items()
    }
    if (
        not sizes
        or None in sizes.values()
        or (nested and not all(sizes.values()))
    ):
        raise ValueError(
            f"`{name}` must hold {wanted}. Received: {name} of sizes {sizes}"
        )
    if keys is not None:
        for key, inner in value.items():
            check_entries(f"{name}[{key!r}]", inner, keys)


def check_entries(name: str, value: Any, keys: Collection[str] = ()) -> None:
    """Raises `ValueError` for all but a dict that has keys, perhaps others."""
    if not isinstance(value, Mapping) or not {*keys} <= value.keys():
        wanted = " with " * bool(keys) + ", ".join(map(repr, keys))
        raise ValueError(
            f"`{name}` must be a dict{wanted}. Received: {name}={value!r}"
        )


def lines(axes: Axes, curves: Curves, x: str, y: str) -> None:
    """Draws a line for each predictor."""
    for index, (name, curve) in enumerate(curves.items()):
        look = series(index, np.size(curve[x]))
        axes.plot(curve[x], curve[y], **look, label=name)


def finite(values: Any) -> np.ndarray:
    """Returns values as float64, with NaN for those that are not finite."""
    values = np.asarray(values, np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def save(
    axes: Figure | Axes | Sequence[Axes] | np.ndarray,
    path: str | os.PathLike | IO[bytes],
    *,
    dpi: float = 150,
    close: bool = False,
) -> None:
    """Saves a figure as an image.

    Args:
        axes: The figure, or its axes as the functions of this room return, an
            array of any shape.
        path: File, whose ending is the format (PNG without one), or a binary
            stream for a PNG. An interruption leaves the old file or the new.
        dpi: Dots per inch, at least 10. Defaults to `150`.
        close: Whether pyplot forgets the figure, so that programs can draw
            many of them. Defaults to `False`.

    Raises:
        ValueError: If `axes`, `path` or `dpi` is none, or Matplotlib has no
            such format.
        OSError: If the file cannot be written.

    Example:

    ```python
    from tfp_refine import plotting

    axes = plotting.ranking({"VI": [0.52, 0.55]}, "test NLL (nats)")
    plotting.save(axes, "ranking.png")
    ```
    """
    if not isinstance(axes, Figure):
        given = np.asarray(axes, dtype=object)
        if not given.size or not _are_axes(given):
            raise ValueError(
                "`axes` must be a figure, or its axes. "
                f"Received: {type(axes).__name__}"
            )
        axes = given.flat[0].get_figure(root=True)
    if _validation.finite("dpi", dpi) < _LEAST_DPI:
        raise ValueError(
            f"`dpi` must be at least {_LEAST_DPI}. Received: dpi={dpi!r}"
        )
    if not hasattr(path, "write"):
        path = _validation.path("path", path)
        if not path.name:
            raise ValueError(f"`path` must name a file. Received: {path=}")
        ending = path.suffix or ".png"
        with _storage.replacing(path.with_suffix(ending)) as file:
            axes.savefig(file, dpi=dpi, format=ending[1:])
    else:
        axes.savefig(path, dpi=dpi)
    if close:
        pyplot.close(axes)
