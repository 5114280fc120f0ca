"""Comparison of networks of several depths."""

from tfp_refine.experiments.harness import figures
from tfp_refine.experiments.harness import tables


def compare_depths(folder, results):
    """Prints and plots test likelihoods over depths.

    Args:
        folder: `pathlib.Path` of the figure.
        results: Dict from depth to `bench.Results`.
    """
    rows = [
        row | {"system": f"{of_depth.titles[row['system']]}, depth {depth}"}
        for depth, of_depth in results.items()
        for row in of_depth.rows.to_dict("records")
    ]
    table = tables.summary(tables.frame(rows), ("nll", "rmse", "elbo"))
    print(table.to_text())
    if not figures.can_plot():
        return
    from tfp_refine import plotting

    curves = {}
    for depth, of_depth in results.items():
        nll = of_depth.rows[of_depth.rows["metric"] == "nll"]
        for system, of_system in nll.groupby("system", sort=False):
            title = of_depth.titles[system]
            curve = curves.setdefault(title, {"depth": [], "values": []})
            curve["depth"].append(depth)
            curve["values"].append((-of_system["value"]).tolist())
    drawn = plotting.depth_sweep(curves, "test log likelihood (nats)")
    figures.save(folder, {"depths": drawn})
