"""Runs the UCI experiment."""

import dataclasses
import pathlib


def run(config):
    """Runs missing parts, and reports.

    Args:
        config: `Config`.

    Returns:
        results: `bench.Results`; with several depths, a dict of them by depth.

    Raises:
        ValueError: If fields do not fit the data, or each other.
    """
    from tfp_refine.experiments import report
    from tfp_refine.experiments.uci import tables

    if len(config.depths) < 2:
        return _bench(config, *config.depths).run(report.show)
    folder = pathlib.Path(
        config.output_dir or f"results/uci/{config.dataset}_depths"
    )
    benches = {
        depth: _bench(config, depth, output_dir=str(folder / f"depth_{depth}"))
        for depth in config.depths
    }
    results = {depth: of.run(report.show) for depth, of in benches.items()}
    tables.compare_depths(folder, config, results)
    return results


def _bench(config, depth=1, **changes):
    from tfp_refine.experiments import standard

    changes |= {"hidden": config.hidden * depth, "depths": ()}
    of_depth = dataclasses.replace(config, **changes)
    return standard.make("uci", of_depth, kinds=("regression",))
