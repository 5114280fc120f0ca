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
    from tfp_refine.experiments import bench
    from tfp_refine.experiments import report
    from tfp_refine.experiments.measures import fits
    from tfp_refine.experiments.measures import predictions
    from tfp_refine.experiments.measures import pruning

    measures = (
        predictions.TEST,
        predictions.UNSEEN,
        predictions.SHIFTS,
        fits.BOUND,
        fits.COSTS,
        pruning.PRUNING,
    )
    kinds = ("images",)
    made = bench.Bench("image", config, measures, fits.observe, kinds)
    return made.run(report.show)
