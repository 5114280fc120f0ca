"""Where the posterior of a layer's weights lies."""

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib import figure as figure_lib


def posterior_scatter(
    layers: Any, prior_variances: Any = None
) -> matplotlib.figure.Figure:
    """Plots log variances against means of the weights, a panel for each layer.

    Weights that the data do not need gather at mean zero and at the variance
    of the prior; in a posterior that lets biases move, those of units that
    are switched off lie far to the left.

    Args:
        layers: Dict from name of a layer to a dict with the `"loc"` and
            `"scale"` of its weights, `[n]`, and the `"bias_loc"` and
            `"bias_scale"` of its biases, `[m]`, perhaps empty.
        prior_variances: Dict from name of a layer to its prior's variance, a
            line in the panel; layers without one may be missing.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no layer.

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX),
          figure 4
    """
    if not layers:
        raise ValueError("`layers` must not be empty. Received: {}")
    figure = figure_lib.Figure(
        figsize=(1.0 + 3.0 * len(layers), 3.4), layout="constrained"
    )
    panels = figure.subplots(1, len(layers), sharey=True, squeeze=False)[0]
    for axes, (name, layer) in zip(panels, layers.items(), strict=True):
        for prefix, label, style in (
            ("", "weights", {"s": 2, "color": "0.6", "rasterized": True}),
            ("bias_", "biases", {"s": 10, "color": "C3", "marker": "x"}),
        ):
            loc, scale = (
                np.ravel(layer[f"{prefix}{part}"]) for part in ("loc", "scale")
            )
            if loc.size:
                axes.scatter(loc, 2.0 * np.log(scale), label=label, **style)
        variance = (prior_variances or {}).get(name)
        if variance is not None:
            axes.axhline(
                np.log(variance), color="C0", linestyle=":", label="prior"
            )
        axes.set_title(name, loc="left", fontsize="medium")
        axes.set_xlabel("posterior mean")
    panels[0].set_ylabel("log of the posterior variance")
    panels[-1].legend(loc="lower right", fontsize="small")
    return figure
