"""How predictors fare as networks get deeper."""

import numpy as np
from matplotlib import figure as figure_lib


def depth_sweep(curves, y_label):
    """Plots a metric against the number of hidden layers.

    Args:
        curves: Dict from name of a predictor to a dict with `"depth"`, `[D]`,
            and the metric's values on each split, `"values"`, `[D, splits]`.
        y_label: Name of the metric and its units.

    Returns:
        figure: `matplotlib.figure.Figure`; means with bars of one standard
        error.

    Raises:
        ValueError: If there is no curve.

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX),
          figure 2
    """
    if not curves:
        raise ValueError("`curves` must not be empty. Received: {}")
    figure = figure_lib.Figure(figsize=(5.6, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, curve in curves.items():
        values = np.asarray(curve["values"], np.float64)
        splits = values.shape[1]
        error = (
            values.std(axis=1, ddof=1) / np.sqrt(splits) if splits > 1 else None
        )
        axes.errorbar(
            curve["depth"],
            values.mean(axis=1),
            yerr=error,
            marker="o",
            capsize=3,
            label=name,
        )
    axes.set_xlabel("hidden layers")
    axes.set_xticks(sorted({d for c in curves.values() for d in c["depth"]}))
    axes.set_ylabel(y_label)
    axes.legend()
    return figure
