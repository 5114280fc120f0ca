"""The mixture of a system that is fitted from several starts."""

import numpy as np

from tfp_refine.experiments.systems import fitted
from tfp_refine.experiments.systems import variational


def why_not(fit):
    """Returns why a system cannot be fitted from several starts, or `None`."""
    reason = variational.why_unequal_draws(fit.config, "num_starts")
    if reason is not None:
        return reason
    reason = _start(fit, 0).why_not(fit.expression.argument)
    count = fit.config.num_starts
    return reason and f"For each of --num_starts={count}: {reason}"


def fit_all(fit):
    """Fits a system from starts that differ in all random numbers."""
    members = [
        _start(fit, number).fitted(fit.expression.argument)[0]
        for number in range(fit.config.num_starts)
    ]
    return fitted.Fitted(
        lambda x: np.concatenate([member.draws(x) for member in members]),
        sum(member.num_steps for member in members),
        sum(member.num_numbers for member in members),
    )


def _start(fit, number):
    return fit.repetition.restarted(number, fit.config.num_starts)
