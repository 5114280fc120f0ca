"""Checks of numbers: each returns the value, or raises a `ValueError`."""

import math
import numbers

# Those whose squares, and ratios to weights near 1, float32 holds.
_SCALES = 1e-18, 1e18
# No count, index or size is larger, and all libraries take it.
_LARGEST = 2**53


def finite(name, value):
    """Checks that an argument is a finite number; returns a float."""
    return _number(name, value, "a finite number", math.isfinite)


def positive(name, value):
    """Checks that an argument is a positive finite number; returns a float."""
    return _number(
        name, value, "a positive finite number", lambda v: 0 < v < math.inf
    )


def scale(name, value):
    """Checks that an argument is positive and has a square in float32."""
    least, most = _SCALES
    return _number(
        name,
        value,
        f"a positive finite number from {least:g} to {most:g}",
        lambda v: least <= v <= most,
    )


def not_negative(name, value):
    """Checks that an argument is finite, zero or positive; returns a float."""
    return _number(
        name,
        value,
        "a finite number, not negative",
        lambda v: 0 <= v < math.inf,
    )


def proportion(name, value, one=True):
    """Checks that an argument is in (0, 1], or in (0, 1); returns a float."""
    return _number(
        name,
        value,
        "in (0, 1]" if one else "in (0, 1)",
        lambda v: 0 < v < 1 or (one and v == 1),
    )


def unit_interval(name, value):
    """Checks that an argument is in [0, 1]; returns a float."""
    return _number(name, value, "in [0, 1]", lambda v: 0 <= v <= 1)


def positive_integer(name, value):
    """Checks that an argument is a positive integer; returns an int."""
    return _integer(name, value, 1, "a positive integer")


def not_negative_integer(name, value):
    """Checks that an argument is an integer from 0 on; returns an int."""
    return _integer(name, value, 0, "an integer, not negative")


def positive_integers(name, values):
    """Checks that an argument holds positive integers; returns a tuple."""
    try:
        return tuple(positive_integer(name, value) for value in values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must hold positive integers. Received: {name}={values!r}"
        ) from error


def all_positive_integers(**arguments):
    """Checks that each of several arguments is a positive integer."""
    for name, value in arguments.items():
        positive_integer(name, value)


def _integer(name, value, least, wanted):
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if least <= value <= _LARGEST:
            return int(value)
        if value > _LARGEST:
            wanted += ", at most 2**53"
    raise ValueError(f"`{name}` must be {wanted}. Received: {name}={value!r}")


def _number(name, value, wanted, is_allowed):
    """Checks a number; `is_allowed` must be false for NaN."""
    number = math.nan
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # an integer larger than any float
            number = math.inf
    if not is_allowed(number):
        raise ValueError(
            f"`{name}` must be {wanted}. Received: {name}={value!r}"
        )
    return number
