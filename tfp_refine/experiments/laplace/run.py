"""Runs the Laplace experiment."""

import dataclasses
import pathlib

from tfp_refine.experiments.harness import folder as folder_lib


def run(config):
    """Runs missing parts, and reports each task when it is done.

    Args:
        config: `Config`.

    Returns:
        results: `bench.Results` of the comparison, `folder.Results` of another
            task or of several.

    Raises:
        ValueError: If fields do not fit the data, or each other.
    """
    if len(config.tasks) == 1:
        return _prepare(config)()
    path = pathlib.Path(
        config.output_dir or f"results/laplace/{config.dataset}"
    )
    tasks = [
        _prepare(
            dataclasses.replace(
                config, tasks=(task,), output_dir=str(path / task)
            )
        )
        for task in config.tasks
    ]
    rows = []
    decides = {"folders": "one for each task"}
    with folder_lib.Folder(path, "laplace", config, decides) as folder:
        for task in tasks:
            rows += task().rows.to_dict("records")
            results = folder.write_results(rows)
    return results


def _prepare(config):
    """Checks the needs of one task; returns a function that runs it."""
    from tfp_refine.experiments import bench
    from tfp_refine.experiments.laplace import integration
    from tfp_refine.experiments.laplace import tables
    from tfp_refine.experiments.laplace import toy
    from tfp_refine.experiments.measures import distances
    from tfp_refine.experiments.measures import fits
    from tfp_refine.experiments.measures import predictions

    (task,) = config.tasks
    if task == "comparison":
        measures = (
            predictions.TEST,
            predictions.UNSEEN,
            predictions.SHIFTS,
            fits.BOUND,
            distances.DISTANCES,
            fits.COSTS,
        )
        made = bench.Bench("laplace", config, measures, fits.observe)
        return lambda: made.run(tables.show_comparison)
    compute, show = {
        "toy": (toy.run, tables.show_toy),
        "integration": (integration.run, tables.show_integration),
    }[task]

    def run_alone():
        path = config.output_dir or f"results/laplace/{task}"
        decides = {"seed": config.seed}
        with folder_lib.Folder(path, "laplace", config, decides) as folder:
            rows, details = compute(config, folder)
            results = folder.write_results(rows)
            show(config, results, details)
        return results

    return run_alone
