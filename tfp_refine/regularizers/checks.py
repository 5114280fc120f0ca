"""Checks of a regularizer's arguments."""

import math
import numbers


def positive(name, value):
    """Returns `value` as a float, if it is a positive finite number."""
    if (
        not isinstance(value, numbers.Real)
        or isinstance(value, bool)
        or not math.isfinite(value)
        or value <= 0
    ):
        raise ValueError(
            f"`{name}` must be a positive finite number. "
            f"Received: {name}={value!r}"
        )
    return float(value)
