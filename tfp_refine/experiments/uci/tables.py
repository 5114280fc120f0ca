"""Comparison of networks of several depths."""

import os

from tfp_refine.experiments import bench
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import tables


def compare_depths(
    folder: str | os.PathLike[str],
    config: config_lib.Config,
    results: dict[int, bench.Results],
) -> None:
    """Prints a table over depths, and writes a page with it and a figure."""
    rows = [
        row | {"system": f"{of_depth.titles[row['system']]}, depth {depth}"}
        for depth, of_depth in results.items()
        for row in of_depth.rows.to_dict("records")
    ]
    table = tables.summary(tables.frame(rows), ("nll", "rmse", "elbo"))
    drawn = page.figure(
        "depths", "Test log likelihood.", lambda: _figure(results)
    )
    sections = [page.Section("Depths", [table, *drawn])]
    header = page.header("uci", config)
    page.publish(folder, f"uci: {config.dataset}", sections, header)


def _figure(results):
    from tfp_refine import plotting

    curves = {}
    for depth, of_depth in results.items():
        nll = of_depth.rows[of_depth.rows["metric"] == "nll"]
        for system, of_system in nll.groupby("system", sort=False):
            title = of_depth.titles[system]
            curve = curves.setdefault(title, {"depth": [], "values": []})
            curve["depth"].append(depth)
            curve["values"].append((-of_system["value"]).tolist())
    return plotting.depth_sweep(curves, "test log likelihood (nats)")
