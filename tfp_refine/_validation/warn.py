"""Warnings that name the line of the user, however deep they arise."""

import inspect
import warnings

_INNER = ("tfp_refine", "keras")


def warn(message, category=UserWarning):
    """Warns at the innermost line that is neither this package's nor Keras'."""
    frame, level = inspect.currentframe(), 1
    while frame.f_back and _root(frame) in _INNER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _root(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0]
