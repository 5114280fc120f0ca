"""What is gained, and what it costs, as flows become longer."""

from tfp_refine.plotting import grid

_LABELS = {
    "mmd": "squared MMD to the reference",
    "nll": "test NLL (nats)",
    "elbo": "ELBO (nats)",
    "seconds": "seconds",
}


def flow_length(curves, references=None):
    """Plots metrics against the number of flows, a panel for each metric.

    Args:
        curves: Dict from name of a refinement to a dict of `"length"`, numbers
            of flows, and of metrics by their names, each `[L]`.
        references: Dict from name of another posterior to a dict of its
            metrics, drawn as horizontal lines. Defaults to none.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no curve.

    Reference:
        - [Kristiadi et al., 2022](https://arxiv.org/abs/2205.10041), figure 7
    """
    if not curves:
        raise ValueError("`curves` must not be empty. Received: {}")
    names = [n for n in next(iter(curves.values())) if n != "length"]
    figure, panels = grid.row_of_panels(len(names))
    for axes, metric in zip(panels, names, strict=True):
        for name, curve in curves.items():
            axes.plot(curve["length"], curve[metric], marker="o", label=name)
        for index, (name, values) in enumerate((references or {}).items()):
            if metric in values:
                axes.axhline(
                    values[metric],
                    color=f"C{len(curves) + index}",
                    linestyle=":",
                    label=name,
                )
        axes.set_xlabel("flows")
        axes.set_ylabel(_LABELS.get(metric, metric))
    panels[0].set_yscale("log")
    panels[0].legend(fontsize="small")
    return figure
