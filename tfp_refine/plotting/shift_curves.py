"""What predictors do as inputs move away from those they were trained on."""

from matplotlib import figure as figure_lib

_LABELS = {
    "nll": "NLL (nats)",
    "accuracy": "accuracy",
    "ece": "calibration error",
    "entropy": "mean predictive entropy (nats)",
}


def shift_curves(curves):
    """Plots metrics against the strength of each shift.

    A column for each shift, a row for each metric.

    Args:
        curves: Dict from name of a shift to a dict from name of a predictor to
            a dict of `"strength"` and of metrics by their names, each `[S]`.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no shift, or one without predictors.

    Reference:
        - [Kristiadi et al., 2022](https://arxiv.org/abs/2205.10041), figure 5
    """
    if not curves or not all(curves.values()):
        raise ValueError(
            "`curves` must hold shifts, each with predictors. "
            f"Received: curves={curves!r}"
        )
    first = next(iter(next(iter(curves.values())).values()))
    names = [name for name in first if name != "strength"]
    figure = figure_lib.Figure(
        figsize=(3.0 + 3.8 * len(curves), 2.6 * len(names)),
        layout="constrained",
    )
    panels = figure.subplots(
        len(names), len(curves), sharex="col", sharey="row", squeeze=False
    )
    for column, (shift, predictors) in enumerate(curves.items()):
        for row, metric in enumerate(names):
            axes = panels[row, column]
            for predictor, curve in predictors.items():
                axes.plot(
                    curve["strength"],
                    curve[metric],
                    marker="o",
                    markersize=3,
                    label=predictor,
                )
        panels[0, column].set_title(shift, loc="left", fontsize="medium")
        panels[-1, column].set_xlabel("strength")
    for row, metric in enumerate(names):
        panels[row, 0].set_ylabel(_LABELS.get(metric, metric))
    # Beside the panels: inside, it would hide some curve.
    handles = panels[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right upper", fontsize="small")
    return figure
