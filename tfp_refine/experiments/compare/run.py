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
    from tfp_refine.experiments import bench
    from tfp_refine.experiments import report
    from tfp_refine.experiments.measures import fits
    from tfp_refine.experiments.measures import predictions

    measures = (
        predictions.TEST,
        predictions.UNSEEN,
        predictions.SHIFTS,
        fits.BOUND,
        fits.COSTS,
        fits.WEIGHTS,
    )
    made = bench.Bench("compare", config, measures, fits.observe)
    return made.run(report.show)
