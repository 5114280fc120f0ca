"""Densities of one weight, side by side."""

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib import figure as figure_lib


def densities(grid: Any, curves: Any) -> matplotlib.figure.Figure:
    """Plots densities of one weight (Havasi et al., Fig. 3).

    Args:
        grid: Values of the weight, `[G]`.
        curves: Dict from name to density, `[G]`; the first is the exact
            posterior, and filled.

    Returns:
        figure: `matplotlib.figure.Figure`.
    """
    figure = figure_lib.Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for index, (name, density) in enumerate(curves.items()):
        if index == 0:
            axes.fill_between(grid, density, color="0.85", label=name)
        else:
            axes.plot(grid, density, color=f"C{index - 1}", label=name)
    shown = np.max(list(curves.values()), axis=0) > 1e-3
    axes.set_xlim(grid[shown][0], grid[shown][-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("weight")
    axes.set_ylabel("density")
    axes.legend()
    return figure
