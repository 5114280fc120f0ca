"""How often predictors are sure of what they have never seen."""

from typing import Any

import matplotlib.figure
import numpy as np

from tfp_refine.plotting import grid


def entropy_cdf(entropies: Any) -> matplotlib.figure.Figure:
    """Plots cumulative distributions of predictive entropies.

    A panel for each data set. On data of unseen classes a good predictor's
    curve stays low, and rises at the right: it is rarely sure. On known data it
    rises at the left.

    Args:
        entropies: Dict from name of a data set to a dict from name of a
            predictor to the predictive entropies of its examples, nats, `[N]`.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no data set, or a predictor has no entropies.

    Reference:
        - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961),
          figures 2 and 3
    """
    values = [v for curves in entropies.values() for v in curves.values()]
    if not (values and all(entropies.values()) and all(map(np.size, values))):
        raise ValueError(
            "`entropies` must hold data sets, each with predictors whose "
            f"entropies are not empty. Received: entropies={entropies!r}"
        )
    highest = max(map(np.max, values)) or 1.0
    figure, panels = grid.row_of_panels(len(entropies), sharey=True)
    for axes, (name, curves) in zip(panels, entropies.items(), strict=True):
        for predictor, entropy in curves.items():
            axes.ecdf(
                entropy, label=f"{predictor}, mean {np.mean(entropy):.2f}"
            )
        axes.set_title(name, loc="left", fontsize="medium")
        axes.set_xlabel("predictive entropy (nats)")
        axes.set_xlim(0.0, highest)
        axes.legend()
    panels[0].set_ylabel("fraction of examples below")
    return figure
