"""Runs the image experiment."""


def run(config):
    """Runs missing parts, and reports.

    Args:
        config: `Config`.

    Returns:
        results: `bench.Results`.

    Raises:
        ValueError: If fields do not fit the data, or each other.
    """
    from tfp_refine.experiments import report
    from tfp_refine.experiments import standard
    from tfp_refine.experiments.measures import pruning

    made = standard.make("image", config, pruning.PRUNING, kinds=("images",))
    return made.run(report.show)
