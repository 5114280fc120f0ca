"""The mixture of a system that is fitted from several starts."""

import numpy as np

from tfp_refine.experiments.systems import fitted


def why_not(fit):
    """Returns why a system cannot be fitted from several starts, or `None`."""
    config = fit.config
    if config.num_samples % config.num_starts:
        return (
            "--num_samples must be a multiple of --num_starts, so that every "
            "start is drawn as often. Received: "
            f"{config.num_samples} and {config.num_starts}"
        )
    reason = _start(fit, 0).why_not(fit.expression.argument)
    return reason and f"For each of --num_starts={config.num_starts}: {reason}"


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
