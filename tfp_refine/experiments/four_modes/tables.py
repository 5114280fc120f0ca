"""Table and figure of the refinement of a posterior with four modes."""

import numpy as np

from tfp_refine.experiments.four_modes import target
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import folder
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import tables


def show(
    results: folder.Results,
    config: config_lib.Config,
    densities: dict[str, np.ndarray],
) -> None:
    """Prints bounds, and writes a page with densities on the grid, `[G]`."""
    table = tables.Table(
        ["", "nats"],
        [
            [tables.metric_of(row.metric).head, f"{row.value:.4f}"]
            for row in results.rows.itertuples()
        ],
        ["Bounds of the log evidence; the first is that of the best Gaussian."],
    )
    drawn = page.figure(
        "four_modes", "Densities of the weight.", lambda: _figure(densities)
    )
    page.publish(
        results.path,
        "A posterior with four modes",
        [page.Section("Refinement of the best Gaussian", [table, *drawn])],
        page.header("four_modes", config),
    )


def _figure(densities):
    from tfp_refine import plotting

    return plotting.densities(target.GRID, densities)
