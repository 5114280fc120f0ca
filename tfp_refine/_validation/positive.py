"""Numbers as arguments."""

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
    return _number(
        name, value, "a positive finite number", lambda v: 0 < v < math.inf
    )


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
    return _number(
        name,
        value,
        "a finite number, not negative",
        lambda v: 0 <= v < math.inf,
    )


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
    return _number(
        name,
        value,
        "in (0, 1]" if one else "in (0, 1)",
        lambda v: 0 < v < 1 or (one and v == 1),
    )


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
    return _integer(name, value, 1, "a positive integer")


def not_negative_integer(name, value):
    """Checks that an argument is an integer, zero or positive.

    Args:
        name: Name of the argument, for the error.
        value: What came.

    Returns:
        value: As an int.

    Raises:
        ValueError: If it is something else.
    """
    return _integer(name, value, 0, "an integer, not negative")


def positive_integers(name, values):
    """Checks that an argument holds positive integers.

    Args:
        name: Name of the argument, for the error.
        values: What came.

    Returns:
        values: As a tuple of ints, perhaps an empty one.

    Raises:
        ValueError: If it is something else.
    """
    try:
        return tuple(positive_integer(name, value) for value in values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must hold positive integers. Received: {name}={values!r}"
        ) from error


def finite(name, value):
    """Checks that an argument is a finite number.

    Args:
        name: Name of the argument, for the error.
        value: What came.

    Returns:
        value: As a float.

    Raises:
        ValueError: If it is something else.
    """
    return _number(name, value, "a finite number", math.isfinite)


def _integer(name, value, least, wanted):
    if (
        not isinstance(value, numbers.Integral)
        or isinstance(value, bool)
        or value < least
    ):
        raise ValueError(
            f"`{name}` must be {wanted}. Received: {name}={value!r}"
        )
    return int(value)


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
