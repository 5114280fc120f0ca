"""Panels of a figure."""

import math

from matplotlib import figure as figure_lib

_WIDTH, _HEIGHT = 3.8, 3.2  # inches, a panel


def panel(width, height):
    """Makes a figure with one panel, in inches; returns both."""
    figure = figure_lib.Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def row_of_panels(count, sharey=False):
    """Makes a figure with `count` panels side by side; returns both."""
    return rows_of_panels(count, max_columns=count, sharey=sharey)


def rows_of_panels(count, max_columns=4, sharey=False):
    """Makes a figure with panels in rows of about the same length."""
    rows = math.ceil(count / max_columns)
    columns = math.ceil(count / rows)
    figure = figure_lib.Figure(
        figsize=(0.8 + _WIDTH * columns, _HEIGHT * rows), layout="constrained"
    )
    panels = figure.subplots(rows, columns, sharey=sharey, squeeze=False)
    for axes in panels.ravel()[count:]:
        axes.remove()
    return figure, panels.ravel()[:count]
