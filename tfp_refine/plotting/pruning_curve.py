"""What the units are worth that a posterior does not use."""

from matplotlib import figure as figure_lib


def pruning_curve(curves):
    """Plots the test likelihood as more and more units are removed.

    Args:
        curves: Dict from name of a predictor to a dict with the numbers of
            removed units, `"removed"`, and the negative log likelihoods in nats
            without them, `"nll"`; and with `"pruned"`, the number of units that
            the posterior does not use, marked by a line.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no curve.

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX),
          figure 3
    """
    if not curves:
        raise ValueError("`curves` must not be empty. Received: {}")
    figure = figure_lib.Figure(figsize=(5.6, 3.6), layout="constrained")
    axes = figure.subplots()
    for index, (name, curve) in enumerate(curves.items()):
        color = f"C{index}"
        axes.plot(
            curve["removed"], curve["nll"], "o-", color=color, label=name, ms=4
        )
        axes.axvline(
            curve["pruned"],
            color=color,
            linestyle=":",
            label=f"unused by its posterior: {curve['pruned']}",
        )
    axes.set_yscale("log")
    axes.set_xlabel("hidden units removed, by signal-to-noise ratio")
    axes.set_ylabel("test negative log likelihood (nats)")
    axes.legend(fontsize="small")
    return figure
