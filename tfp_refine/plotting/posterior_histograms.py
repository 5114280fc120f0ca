"""Histograms of what posteriors of weights are like."""

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib import figure as figure_lib

_NUM_BINS = 40
_QUANTITIES = {"loc": "posterior mean", "scale": "log10 standard deviation"}


def posterior_histograms(weights: Any) -> matplotlib.figure.Figure:
    """Plots histograms of the posteriors' means and scales, a row a tensor.

    Weights that the data say nothing about are where the prior has them.

    Args:
        weights: Dict from name of a tensor to a dict from name of a posterior
            to a dict with `"loc"` and `"scale"` (a standard deviation) of its
            weights, each `[D]`.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no tensor, or one without posteriors.

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX),
          figure 1
    """
    if not weights or not all(weights.values()):
        raise ValueError(
            "`weights` must hold tensors, each with a posterior at least. "
            f"Received: {list(weights)}"
        )
    figure = figure_lib.Figure(
        figsize=(8.4, 0.6 + 2.2 * len(weights)), layout="constrained"
    )
    panels = figure.subplots(
        len(weights), len(_QUANTITIES), sharex="col", squeeze=False
    )
    names = list(dict.fromkeys(n for one in weights.values() for n in one))
    for column, quantity in enumerate(_QUANTITIES):
        edges = _edges(weights, quantity)
        for row, (tensor, posteriors) in enumerate(weights.items()):
            axes = panels[row, column]
            for name, posterior in posteriors.items():
                axes.hist(
                    np.clip(_values(posterior, quantity), edges[0], edges[-1]),
                    edges,
                    density=True,
                    histtype="step",
                    linewidth=1.3,
                    color=f"C{names.index(name)}",
                    label=name,
                )
            axes.set_yticks([])
            if not column:
                axes.set_title(tensor, loc="left", fontsize="medium")
        panels[-1, column].set_xlabel(_QUANTITIES[quantity])
    panels[0, 0].legend(fontsize="small")
    return figure


def _values(posterior, quantity):
    values = np.asarray(posterior[quantity], np.float64)
    if quantity == "scale":
        return np.log10(np.maximum(values, 1e-12))
    return values


def _edges(weights, quantity):
    """Returns edges of bins that show all but the farthest values."""
    values = np.concatenate(
        [
            _values(posterior, quantity)
            for posteriors in weights.values()
            for posterior in posteriors.values()
        ]
    )
    low, high = np.quantile(values, [0.005, 0.995])
    margin = 0.05 * (high - low) or 0.5
    return np.linspace(low - margin, high + margin, _NUM_BINS + 1)
