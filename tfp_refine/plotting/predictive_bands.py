"""Predictions of a function of one variable, with their uncertainty."""

from typing import Any

import matplotlib.figure
import numpy as np

from tfp_refine.plotting import grid


def predictive_bands(
    x: Any,
    predictors: Any,
    data: Any = None,
    truth: Any = None,
    num_scales: Any = 3,
) -> matplotlib.figure.Figure:
    """Plots means with bands of some standard deviations, a panel each.

    Args:
        x: Points, increasing, `[G]`.
        predictors: Dict from name of a predictor to a dict with `"mean"` and
            `"scale"` (a standard deviation), each `[G]`.
        data: `(x, y)` of the training examples, each `[N]`, or `None`.
        truth: The true function at `x`, `[G]`, or `None`.
        num_scales: Half width of the band in standard deviations. Defaults to
            `3`; single standard deviations are drawn darker.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no predictor.

    Reference:
        - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961),
          figure 6
    """
    if not predictors:
        raise ValueError("`predictors` must not be empty. Received: {}")
    x = np.asarray(x)
    figure, panels = grid.rows_of_panels(len(predictors), sharey=True)
    for axes, (name, predictor) in zip(panels, predictors.items(), strict=True):
        mean, scale = (np.asarray(predictor[k]) for k in ("mean", "scale"))
        for width in range(1, num_scales + 1):
            axes.fill_between(
                x,
                mean - width * scale,
                mean + width * scale,
                color="C0",
                alpha=0.18,
                linewidth=0,
            )
        axes.plot(x, mean, color="C0", label="mean")
        if truth is not None:
            axes.plot(x, truth, color="0.3", linestyle="--", label="truth")
        if data is not None:
            axes.plot(*data, "k.", label="data")
        axes.set_title(name, loc="left", fontsize="medium")
        axes.set_xlabel("x")
        axes.set_xlim(x[0], x[-1])
    if truth is not None:
        # The bands of some predictors would leave nothing else to see.
        reach = 1.15 * np.max(np.abs(truth))
        panels[0].set_ylim(-reach, reach)
    panels[0].set_ylabel(f"y, up to {num_scales} standard deviations")
    panels[0].legend()
    return figure
