"""Runs the Laplace experiment."""

import pathlib


def run(config):
    """Runs missing parts, and reports each task when it is done.

    Args:
        config: `Config`.

    Returns:
        results: Dict from the name of a task to its results: `bench.Results` of
            the comparison, `folder.Results` of others.

    Raises:
        ValueError: If fields do not fit the data, or each other.
    """
    from tfp_refine.experiments import tasks
    from tfp_refine.experiments.laplace import integration
    from tfp_refine.experiments.laplace import tables
    from tfp_refine.experiments.laplace import toy

    known = {
        "comparison": tasks.of_bench(_comparison, tables.comparison),
        "toy": _alone("toy", toy.run, tables.show_toy),
        "integration": _alone(
            "integration", integration.run, tables.show_integration
        ),
    }
    chosen = {task: known[task] for task in config.tasks}
    return tasks.run("laplace", config, chosen)


def _comparison(config):
    from tfp_refine.experiments import standard
    from tfp_refine.experiments import tasks
    from tfp_refine.experiments.measures import distances

    own = tasks.configure(config, "comparison", ())
    return standard.make("laplace", own, distances.DISTANCES)


def _alone(task, compute, show):
    """Returns a task without a data set."""
    from tfp_refine.experiments.harness import folder as folder_lib

    def run_alone(config):
        path = pathlib.Path(config.output_dir) / task
        decides = {"seed": config.seed}
        with folder_lib.Folder(path, "laplace", config, decides) as folder:
            rows, details = compute(config, folder)
            results = folder.write_results(rows)
            show(config, results, details)
        return results

    return lambda config: lambda: run_alone(config)
