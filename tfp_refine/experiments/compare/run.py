"""Runs the comparison of all systems."""


def run(config):
    """Runs missing repetitions, and reports after each.

    Args:
        config: `Config`.

    Returns:
        results: `bench.Results`.

    Raises:
        ValueError: If fields do not fit the data, or all systems failed.
    """
    from tfp_refine.experiments import report
    from tfp_refine.experiments import standard

    return standard.make("compare", config).run(report.show)
