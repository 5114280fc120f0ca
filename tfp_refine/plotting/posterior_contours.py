"""Posteriors of two weights, beside the true one."""

from typing import Any

import matplotlib.figure
import numpy as np
from scipy import stats

from tfp_refine.plotting import grid

_LEVELS = (0.99, 0.9, 0.5)  # mass inside the lines
_MAX_COLUMNS = 4


def posterior_contours(
    first: Any, second: Any, log_density: Any, samples: Any
) -> matplotlib.figure.Figure:
    """Plots samples' densities, with the true contours over them.

    A panel for each posterior. Lines hold 50, 90 and 99% of the true mass.

    Args:
        first: Values of the first weight, evenly spaced, `[G]`.
        second: Values of the second weight, likewise, `[H]`.
        log_density: Logarithm of the true density there, but for a constant,
            nats, `[G, H]`.
        samples: Dict from name of a posterior to its samples, `[S, 2]`.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there are no samples.

    Reference:
        - [Kristiadi et al., 2022](https://arxiv.org/abs/2205.10041), figure 6
    """
    if not samples:
        raise ValueError("`samples` must not be empty. Received: {}")
    density = np.exp(log_density - np.max(log_density))
    levels = _levels(density)
    points = np.stack(np.meshgrid(first, second, indexing="ij")).reshape(2, -1)
    figure, panels = grid.rows_of_panels(len(samples), _MAX_COLUMNS)
    for axes, (name, drawn) in zip(panels, samples.items(), strict=True):
        estimate = stats.gaussian_kde(np.transpose(drawn))(points)
        if np.max(estimate) > 0.0:  # or it lies between the points
            axes.contourf(
                first,
                second,
                estimate.reshape(density.shape).T,
                levels=np.max(estimate) * np.linspace(0.02, 1.0, 13),
                cmap="Blues",
            )
        axes.contour(
            first,
            second,
            density.T,
            levels=levels,
            colors="black",
            linewidths=0.8,
        )
        axes.set_title(name, loc="left", fontsize="medium")
        axes.set_xlabel("first weight")
        axes.set_ylabel("second weight")
    return figure


def _levels(density):
    """Returns the densities above which parts of the mass lie, rising."""
    falling = np.sort(density, axis=None)[::-1]
    mass = np.cumsum(falling) / np.sum(falling)
    return [falling[np.searchsorted(mass, level)] for level in _LEVELS]
