"""Accuracy against confidence."""

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib import figure as figure_lib

_MARKERS = "osD^vPX"
# Characters of a name that has no room beside another one.
_LONG = 16


def reliability_diagram(bins: Any) -> matplotlib.figure.Figure:
    """Plots accuracy against confidence (Guo et al., 2017, Fig. 1).

    A bar at a point is the 95% Wilson interval of its accuracy. Below stands
    what fraction of predictions each bin holds: a gap counts in the expected
    calibration error (ECE) as much as its bin holds.

    Args:
        bins: Dict from name of a predictor to its `metrics.CalibrationBins`,
            or to four arrays in their order: counts, `[K]`, accuracy, `[K]`,
            confidence, `[K]`, edges, `[K + 1]`. `K` may differ. Where a count
            is 0, accuracy and confidence are not read.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If `bins` is empty, or the arrays of a predictor do not
            fit.
    """
    if not bins:
        raise ValueError(
            f"`bins` must hold at least one predictor. Received: {bins!r}"
        )
    figure = figure_lib.Figure(figsize=(5.2, 6.4), layout="constrained")
    gaps, shares = figure.subplots(2, sharex=True, height_ratios=[3, 1])
    gaps.plot([0, 1], [0, 1], "--", color="0.6", label="calibrated")
    for index, (name, arrays) in enumerate(bins.items()):
        counts, accuracy, confidence, edges = _checked(name, arrays)
        fractions = counts / counts.sum()
        used = counts > 0
        error = np.sum((fractions * np.abs(accuracy - confidence))[used])
        gaps.errorbar(
            confidence[used],
            accuracy[used],
            yerr=_interval(accuracy[used], counts[used]),
            color=f"C{index}",
            marker=_MARKERS[index % len(_MARKERS)],
            markersize=4.5,
            elinewidth=0.8,
            label=f"{name} (ECE {100 * error:.2f}%)",
        )
        shares.stairs(fractions, edges, color=f"C{index}", linewidth=1.5)
    gaps.set_xlim(-0.02, 1.02)
    gaps.set_ylim(-0.02, 1.02)
    gaps.set_ylabel("accuracy")
    # Above the axes: inside, some predictor would be hidden.
    columns = 2 if max(map(len, bins)) < _LONG else 1
    figure.legend(loc="outside upper left", fontsize="medium", ncols=columns)
    shares.set_ylim(bottom=0)
    shares.set_xlabel("confidence")
    shares.set_ylabel("fraction of\npredictions")
    return figure


def _interval(accuracy, counts, z=1.96):
    """Returns how far the Wilson interval reaches down and up, `[2, K]`."""
    center = (accuracy + z**2 / (2 * counts)) / (1 + z**2 / counts)
    variance = accuracy * (1 - accuracy) / counts + z**2 / (4 * counts**2)
    half = z * np.sqrt(variance) / (1 + z**2 / counts)
    # At accuracies of 0 and 1 rounding may leave -1e-17.
    reach = [accuracy - (center - half), center + half - accuracy]
    return np.maximum(reach, 0.0)


def _checked(name, arrays):
    arrays = [np.asarray(array, dtype=np.float64) for array in arrays]
    shapes = [array.shape for array in arrays]
    size = arrays[0].size
    if shapes != [(size,), (size,), (size,), (size + 1,)]:
        raise ValueError(
            "`bins` must hold counts, accuracy and confidence of one length, "
            f"and one more edge. Received: {name!r} with shapes {shapes}"
        )
    return arrays
