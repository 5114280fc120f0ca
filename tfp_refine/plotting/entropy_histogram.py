"""How sure predictors are of data they know, and of data they do not."""

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib import figure as figure_lib


def entropy_histogram(
    entropies: Any, num_bins: Any = 30
) -> matplotlib.figure.Figure:
    """Plots histograms of predictive entropies, a panel for each predictor.

    A good predictor has the filled histogram on the left, and the others on
    the right. All panels have the same bins and axes. Fractions are on a log
    scale: known data are often nearly all in the first bin.

    Args:
        entropies: Dict from name of a predictor to a dict from name of a data
            set to the predictive entropies of its examples, nats, `[N]`. The
            first data set is in-distribution, and filled; sizes may differ.
        num_bins: Number of bins between 0 and the greatest entropy of all.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no predictor, or one without entropies.
    """
    values = [v for sets in entropies.values() for v in sets.values()]
    if not (values and all(entropies.values()) and all(map(np.size, values))):
        raise ValueError(
            "`entropies` must hold predictors, each with data sets that are "
            f"not empty. Received: entropies={entropies!r}"
        )
    edges = np.linspace(0.0, max(map(np.max, values)) or 1.0, num_bins + 1)
    figure = figure_lib.Figure(
        figsize=(6.4, 1.0 + 2.0 * len(entropies)), layout="constrained"
    )
    panels = figure.subplots(
        len(entropies), sharex=True, sharey=True, squeeze=False
    )[:, 0]
    for axes, (name, sets) in zip(panels, entropies.items(), strict=True):
        for index, (set_name, entropy) in enumerate(sets.items()):
            counts, _ = np.histogram(entropy, edges)
            axes.stairs(
                counts / np.size(entropy),
                edges,
                fill=index == 0,
                color="0.75" if index == 0 else f"C{index - 1}",
                linewidth=1.5,
                label=f"{set_name}, mean {np.mean(entropy):.2f}",
            )
        axes.set_yscale("log")
        axes.set_title(name, loc="left", fontsize="medium")
        axes.set_ylabel("fraction of\nexamples (log)")
        axes.legend()
    panels[0].set_xlim(edges[0], edges[-1])
    panels[-1].set_xlabel("predictive entropy (nats)")
    return figure
