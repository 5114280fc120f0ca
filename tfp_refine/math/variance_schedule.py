"""Shares of the prior's variance that the auxiliary variables take.

A *ratio* `r_k` is the part of the variance that is still left which auxiliary
variable `k` takes; a *fraction* `f_k` is the part of the original variance. The
paper prints fractions, the algorithm uses ratios:
`f_k = r_k * prod_{j < k} (1 - r_j)`.
"""

import math
from collections.abc import Sequence

_ROUNDING = 1e-9


def ratios_from_fractions(fractions: Sequence[float]) -> tuple[float, ...]:
    """Converts fractions of the original prior variance into ratios.

    Fractions are in (0, 1) and their sum is at most 1. A last fraction that
    takes all that is left would leave a point mass, whose refinement is void
    (the final draw from the posterior takes its place), so it is dropped.

    Reference:
        - [Havasi et al., 2021](https://doi.org/10.3390/e23111475), section 4:
          0.7, 0.21, 0.063, 0.0189 and 0.0081 are four ratios of 0.7.
    """
    fractions = _checked("fractions", fractions)
    total = sum(fractions)
    if total > 1.0 + _ROUNDING:
        raise ValueError(
            "`fractions` of the prior variance must sum to at most 1. "
            f"Received: fractions={fractions}, sum={total}"
        )
    ratios, left = [], 1.0
    for fraction in fractions:
        # A small fraction may still be far from all of the little that is left.
        if fraction > left or math.isclose(
            fraction, left, rel_tol=_ROUNDING, abs_tol=1e-15
        ):
            break
        ratios.append(fraction / left)
        left -= fraction
    if not ratios:
        raise ValueError(
            "`fractions` must leave some of the prior variance to refine. "
            f"Received: fractions={fractions}"
        )
    return tuple(ratios)


def fractions_from_ratios(ratios: Sequence[float]) -> tuple[float, ...]:
    """Converts ratios into fractions of the original prior variance.

    The part that is missing to 1 stays in `p(w | a)`.
    """
    fractions, left = [], 1.0
    for ratio in check_ratios(ratios):
        fractions.append(ratio * left)
        left *= 1.0 - ratio
    return tuple(fractions)


def check_ratios(ratios: Sequence[float]) -> tuple[float, ...]:
    """Returns `ratios`, checked to be in (0, 1), as a tuple of floats."""
    return _checked("variance_ratios", ratios)


def _checked(name, values):
    try:
        values = tuple(float(value) for value in values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be a sequence of numbers in (0, 1). "
            f"Received: {name}={values!r}"
        ) from error
    if not values or not all(0.0 < value < 1.0 for value in values):
        raise ValueError(
            f"`{name}` must hold one or more numbers in (0, 1). "
            f"Received: {name}={values}"
        )
    return values
