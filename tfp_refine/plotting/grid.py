"""Panels of a figure."""

from matplotlib import figure as figure_lib

_WIDTH, _HEIGHT = 3.8, 3.2  # inches, a panel


def row_of_panels(count, sharey=False):
    """Makes a figure with panels side by side.

    Args:
        count: Number of panels.
        sharey: Whether their vertical axes are the same.

    Returns:
        figure: `matplotlib.figure.Figure`.
        panels: Array of its axes, `[count]`.
    """
    figure = figure_lib.Figure(
        figsize=(0.8 + _WIDTH * count, _HEIGHT), layout="constrained"
    )
    return figure, figure.subplots(1, count, sharey=sharey, squeeze=False)[0]
