"""Files of the figures that an experiment draws."""

import importlib.util

from absl import logging


def can_plot():
    """Says whether figures can be drawn, into files and without a display."""
    if importlib.util.find_spec("matplotlib") is not None:
        import matplotlib

        matplotlib.use("agg")
        return True
    logging.info(
        "No plots: matplotlib is missing (pip install 'tfp_refine[plot]')."
    )
    return False


def save(directory, drawn):
    """Saves figures as PNG files.

    Args:
        directory: Folder.
        drawn: Dict from name of a file, without its ending, to the axes of a
            figure.
    """
    from tfp_refine import plotting

    print("\nPlots:")
    for name, axes in drawn.items():
        path = directory / f"{name}.png"
        plotting.save(axes, path, close=True)
        print(f"  {path}")
