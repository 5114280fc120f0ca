"""Files of the figures that an experiment draws."""

import importlib.util
import io
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging

from tfp_refine.experiments.harness import folder


def can_plot() -> bool:
    """Returns whether matplotlib is installed; logs how to get it if not."""
    if importlib.util.find_spec("matplotlib") is not None:
        return True
    logging.warning(
        "No plots: matplotlib is missing (pip install 'tfp_refine[plot]')."
    )
    return False


def png(drawn: Any, dpi: int = 150) -> bytes:
    """Returns a figure as the contents of a PNG file, and closes it.

    Args:
        drawn: `matplotlib.figure.Figure`, or the axes of one: an
            `matplotlib.axes.Axes` or an array of them.
        dpi: Pixels per inch.

    Returns:
        contents: Bytes.
    """
    from matplotlib import pyplot

    figure = np.asarray(drawn, dtype=object).flat[0].figure
    with io.BytesIO() as stream:
        figure.savefig(stream, format="png", dpi=dpi)
        pyplot.close(figure)
        return stream.getvalue()


def save(
    directory: str | os.PathLike[str], figures: Mapping[str, Any]
) -> list[pathlib.Path]:
    """Saves figures as PNG files.

    Args:
        directory: Folder.
        figures: Dict from name of a file, without its ending, to what `png`
            takes.

    Returns:
        paths: The files.

    Raises:
        OSError: If a file cannot be written.
    """
    paths = []
    for name, drawn in figures.items():
        paths.append(pathlib.Path(directory) / f"{name}.png")
        folder.write_bytes(paths[-1], png(drawn))
    return paths
