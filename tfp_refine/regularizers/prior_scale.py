"""Standard deviations of priors, as numbers or by name."""

import math
from typing import Any

from tfp_refine import _validation

# Gain in the variance, gain / fan_in.
_GAINS = {"fan_in": 1.0, "he": 2.0}


def check(name: str, value: Any) -> float | str:
    """Checks that an argument is positive, or the name "fan_in" or "he"."""
    if isinstance(value, str):
        if value in _GAINS:
            return value
        raise ValueError(
            f"`{name}` must be a positive number or one of {sorted(_GAINS)}. "
            f"Received: {name}={value!r}"
        )
    return _validation.scale(name, value)


def resolve(value: float | str, fan_in: int) -> float:
    """Returns the number: `fan_in**-0.5` or `(2 / fan_in)**0.5` for names."""
    if isinstance(value, str):
        return math.sqrt(_GAINS[value] / fan_in)
    return value


def number(value: float | str) -> float:
    """Returns a number, or raises a `ValueError` if it still is a name."""
    if isinstance(value, str):
        raise ValueError(
            f"The prior scale '{value}' depends on the number of inputs: "
            "outside a layer, call `for_fan_in` first."
        )
    return value
