"""Files of the figures that an experiment draws."""

import importlib.util

from absl import logging


def can_plot():
    """Tells whether matplotlib is installed, and how to get it if not."""
    if importlib.util.find_spec("matplotlib") is not None:
        return True
    logging.info(
        "No plots: matplotlib is missing (pip install 'tfp_refine[plot]')."
    )
    return False


def save(directory, figures):
    """Saves figures as PNG files.

    Args:
        directory: Folder.
        figures: Dict from name of a file, without its ending, to a
            `matplotlib.figure.Figure`.
    """
    print("\nPlots:")
    for name, figure in figures.items():
        path = directory / f"{name}.png"
        figure.savefig(path, dpi=150)
        print(f"  {path}")
