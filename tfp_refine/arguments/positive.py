"""Positive numbers as arguments."""

import math
import numbers


def positive(name, value):
    """Checks that an argument is a positive finite number.

    Args:
        name: Name of the argument, for the error.
        value: What came.

    Returns:
        value: As a float.

    Raises:
        ValueError: If it is something else.
    """
    if (
        not isinstance(value, numbers.Real)
        or isinstance(value, bool)
        or not 0 < value < math.inf
    ):
        raise ValueError(
            f"`{name}` must be a positive finite number. "
            f"Received: {name}={value!r}"
        )
    return float(value)


def not_negative(name, value):
    """Checks that an argument is a finite number, zero or positive.

    Args:
        name: Name of the argument, for the error.
        value: What came.

    Returns:
        value: As a float.

    Raises:
        ValueError: If it is something else.
    """
    if (
        not isinstance(value, numbers.Real)
        or isinstance(value, bool)
        or not 0 <= value < math.inf
    ):
        raise ValueError(
            f"`{name}` must be a finite number, not negative. "
            f"Received: {name}={value!r}"
        )
    return float(value)


def proportion(name, value, one=True):
    """Checks that an argument is in (0, 1], or in (0, 1).

    Args:
        name: Name of the argument, for the error.
        value: What came.
        one: Whether 1 is allowed.

    Returns:
        value: As a float.

    Raises:
        ValueError: If it is something else.
    """
    if (
        not isinstance(value, numbers.Real)
        or isinstance(value, bool)
        or not 0 < value <= 1
        or (value == 1 and not one)
    ):
        raise ValueError(
            f"`{name}` must be in (0, 1{']' if one else ')'}. "
            f"Received: {name}={value!r}"
        )
    return float(value)


def positive_integer(name, value):
    """Checks that an argument is a positive integer.

    Args:
        name: Name of the argument, for the error.
        value: What came.

    Returns:
        value: As an int.

    Raises:
        ValueError: If it is something else.
    """
    if (
        not isinstance(value, numbers.Integral)
        or isinstance(value, bool)
        or value < 1
    ):
        raise ValueError(
            f"`{name}` must be a positive integer. Received: {name}={value!r}"
        )
    return int(value)
