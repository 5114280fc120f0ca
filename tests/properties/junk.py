"""Strategies of arguments that are wrong, or may be anything."""

import math

import numpy as np
from hypothesis import strategies as st


class Unknown:
    """An object that nothing has heard of."""

    def __repr__(self):
        return "Unknown()"


_NOT_NUMBERS = [
    True,
    False,
    "",
    "2",
    "unknown",
    b"x",
    (),
    (1, 2),
    [],
    [3.0],
    {},
    {"class_name": "Unknown", "config": {}},
    Unknown(),
    Unknown,
    1j,
    np.ones(2),
    np.ones((0, 3)),
    np.array(["a"]),
]
_NOT_FINITE = [math.nan, math.inf, -math.inf, np.float32("nan")]
_FRACTIONS = [0.5, 1.5, -2.5, 2.0, np.float32(2.0)]

ANYTHING = st.sampled_from(
    [None, 0, -1, 1, 2, *_NOT_NUMBERS, *_NOT_FINITE, *_FRACTIONS]
)


def _some(values, none):
    return st.sampled_from([*values, *([] if none else [None])])


def not_positive_integers(none=False, zero=False):
    """Draws a value that is no positive integer.

    Args:
        none: Whether `None` is allowed, and not drawn.
        zero: The same of 0.
    """
    values = [-1, -(10**20), *_NOT_NUMBERS, *_NOT_FINITE, *_FRACTIONS]
    return _some(values if zero else [0, *values], none)


def not_positive_numbers(none=False, zero=False):
    """Draws no positive finite number; arguments as above."""
    values = [-1, -0.5, *_NOT_NUMBERS, *_NOT_FINITE, 10**400]
    return _some(values if zero else [0, 0.0, -0.0, *values], none)


def not_finite_numbers():
    """Draws a value that is no finite number."""
    return _some([*_NOT_NUMBERS, *_NOT_FINITE, 10**400], none=False)


def not_proportions(none=False):
    """Draws a value that is no number in (0, 1]."""
    numbers = [0, 0.0, -0.1, 1.0000001, 2]
    return _some([*_NOT_NUMBERS, *_NOT_FINITE, *numbers], none)


def not_seeds():
    """Draws a value that is neither an integer nor `None`."""
    values = [v for v in _NOT_NUMBERS if not isinstance(v, bool)]
    return st.sampled_from([*values, *_NOT_FINITE, 1.5])


def not_sizes():
    """Draws neither a positive integer nor a few of them."""
    values = [0, -1, 1.5, (), (0,) * 3, (1, -1), "a", [[1]], Unknown(), {}]
    return _some([*values, *_NOT_FINITE, (2,) * 7, 1j], none=False)


def not_names(none=False):
    """Draws a value that is no name of anything."""
    values = [0, 1.5, math.nan, "", "unknown", b"same", ("same",), [], {}]
    return _some([*values, Unknown(), True], none)


def not_shapes():
    """Draws a value that is no shape of inputs."""
    values = [0, 1.5, "ab", (0,), (-1, 2, 3), (1.5,), (None,), Unknown(), True]
    return _some([*values, ("a", "b", "c"), [[2]], math.nan], none=False)


def not_lists_of_integers():
    """Draws a value that holds no positive integers."""
    values = [3, 1.5, "ab", (0,), (2, -1), (1.5, 2), (None,), Unknown(), True]
    return _some([*values, ("a", "b"), [[2]], math.nan], none=False)
