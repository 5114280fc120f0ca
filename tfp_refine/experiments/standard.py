"""The bench of an experiment that measures all that systems have."""

from tfp_refine.experiments import bench
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.measures import fits
from tfp_refine.experiments.measures import predictions


def make(
    experiment: str,
    config: fields.Bench,
    *others: bench.Measure,
    kinds: tuple[str, ...] = fields.KINDS,
) -> bench.Bench:
    """Returns the bench of an experiment, for data of some kinds.

    `others` are measures that it alone has.

    Raises:
        ValueError: If fields do not fit the data, or each other.
    """
    measures = (
        predictions.TEST,
        predictions.UNSEEN,
        predictions.SHIFTS,
        fits.BOUND,
        fits.COSTS,
        fits.WEIGHTS,
        *others,
    )
    return bench.Bench(experiment, config, measures, fits.observe, kinds)
