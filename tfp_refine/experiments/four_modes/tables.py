"""Table and figure of the refinement of a posterior with four modes."""

from tfp_refine.experiments.four_modes import target
from tfp_refine.experiments.harness import figures
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import tables


def show(results, config, densities):
    """Prints the bounds, and writes a page with the densities.

    Args:
        results: `folder.Results`.
        config: `Config`.
        densities: Dict from a title to a density on the grid, `[G]`.
    """
    table = tables.Table(
        ["", "nats"],
        [
            [tables.metric_of(row.metric).head, f"{row.value:.4f}"]
            for row in results.rows.itertuples()
        ],
        ["Bounds of the log evidence; the first is that of the best Gaussian."],
    )
    print(table.to_text(), flush=True)
    parts = [table]
    if figures.can_plot():
        from tfp_refine import plotting

        parts.append(
            page.Figure(
                "four_modes",
                "Densities of the weight.",
                plotting.densities(target.GRID, densities),
            )
        )
    page.write(
        results.path,
        "report",
        "A posterior with four modes",
        [page.Section("Refinement of the best Gaussian", parts)],
        page.header("four_modes", config),
    )
    print(f"Report: {results.path / 'report.html'}")
