"""The prior's precision, and the noise, that maximize the evidence."""

import math

import numpy as np
import scipy.optimize

from tfp_refine import _validation
from tfp_refine.math import laplace_evidence

_REACH = 5.0  # of the noise's logarithm, on either side
# Logarithms of the least and the greatest precision.
_LOWEST, _HIGHEST = math.log(1e-10), math.log(1e10)


def best_prior_precision(eigenvalues, squared_norm):
    """Finds the precision where the evidence is greatest.

    There its derivative, `effective_number - precision * squared_norm`, is
    zero: the fixed point of MacKay, and as that falls with the precision, the
    only one. Eigenvalues are of the Hessian, `[D]`.
    """

    def derivative(log_precision):
        precision = math.exp(log_precision)
        determined = float(
            laplace_evidence.effective_number(eigenvalues, precision)
        )
        return determined - precision * squared_norm

    for end, is_beyond in (
        (_LOWEST, derivative(_LOWEST) <= 0.0),
        (_HIGHEST, derivative(_HIGHEST) >= 0.0),
    ):
        if is_beyond:
            _validation.warn(
                "The evidence has no greatest value between prior precisions "
                f"of {math.exp(_LOWEST):g} and {math.exp(_HIGHEST):g}: "
                f"{math.exp(end):g} is taken. Are the data, or the weights, "
                "all zero, or of extreme sizes?",
            )
            return math.exp(end)
    return math.exp(
        scipy.optimize.brentq(derivative, _LOWEST, _HIGHEST, xtol=1e-12)
    )


def best_noise_scale(log_evidence, start):
    """Finds the noise where the evidence is greatest, near a guess.

    `log_evidence` is a function of the noise's standard deviation.
    """
    found = scipy.optimize.minimize_scalar(
        lambda log_scale: -log_evidence(math.exp(log_scale)),
        bounds=(math.log(start) - _REACH, math.log(start) + _REACH),
        method="bounded",
        options={"xatol": 1e-8},
    )
    if abs(found.x - math.log(start)) > _REACH - 1e-3:
        _validation.warn(
            "The evidence rises with the noise as far as was searched: "
            f"{np.exp(found.x):g} is taken. Does the model fit all targets, "
            "or none of them?",
        )
    return float(np.exp(found.x))
