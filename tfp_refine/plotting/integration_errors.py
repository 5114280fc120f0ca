"""How well the predictions of a Gaussian logit are integrated."""

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib import colors

from tfp_refine.plotting import grid


def integration_errors(
    means: Any, scales: Any, probit: Any, mc: Any, num_samples: int = 20
) -> matplotlib.figure.Figure:
    """Plots the errors of the probit and of Monte Carlo, for two classes.

    Two maps over the mean and the standard deviation of the logit, and the
    errors against the number of draws.

    Args:
        means: Means of the logit, `[M]`.
        scales: Its standard deviations, `[K]`.
        probit: Absolute errors of the probit's closed form, `[M, K]`.
        mc: Standard errors of one draw, `[M, K]`; those of `S` draws are this
            over `sqrt(S)`.
        num_samples: `S` of the map.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Reference:
        - [Kristiadi et al., 2022](https://arxiv.org/abs/2205.10041), figure 2
    """
    probit, mc = np.asarray(probit), np.asarray(mc)
    maps = {
        "probit": probit,
        f"Monte Carlo, {num_samples} draws": mc / np.sqrt(num_samples),
    }
    figure, panels = grid.row_of_panels(len(maps) + 1)
    highest = max(map(np.max, maps.values()))
    norm = colors.LogNorm(highest / 1e3, highest)
    for axes, (name, errors) in zip(panels[:-1], maps.items(), strict=True):
        image = axes.pcolormesh(
            means,
            scales,
            np.maximum(errors.T, norm.vmin),
            norm=norm,
            cmap="magma",
        )
        axes.set_title(name, loc="left", fontsize="medium")
        axes.set_xlabel("mean of the logit")
    panels[0].set_ylabel("standard deviation of the logit")
    figure.colorbar(image, ax=panels[-2], label="error of the probability")
    axes = panels[-1]
    draws = np.logspace(0.0, 4.0, 50)
    for name, reduce in (("mean", np.mean), ("worst", np.max)):
        style = "-" if name == "mean" else ":"
        axes.plot(
            draws,
            reduce(mc) / np.sqrt(draws),
            style,
            color="C0",
            label=f"Monte Carlo, {name}",
        )
        axes.axhline(
            reduce(probit), linestyle=style, color="C1", label=f"probit, {name}"
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("draws")
    axes.set_ylabel("error of the probability")
    axes.legend(fontsize="small")
    return figure
