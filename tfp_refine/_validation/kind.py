"""Checks of arguments that are objects of some kind."""

import os
import pathlib
from collections.abc import Callable
from typing import Any


def instance(name, value, kind, wanted):
    """Checks that an argument is of a class, described, and returns it."""
    if not isinstance(value, kind):
        raise ValueError(
            f"`{name}` must be {wanted}. Received: {name}={value!r}"
        )
    return value


def path(name, value):
    """Checks that an argument is the path of a file or a folder."""
    wanted = "a path, a str or os.PathLike"
    instance(name, value, str | os.PathLike, wanted)
    if not os.fspath(value):
        raise ValueError(f"`{name}` must be {wanted}. Received: {name}=''")
    return pathlib.Path(value)


def holds(is_good: Callable[[Any], bool], value: Any) -> bool:
    """Says whether a value is good; an exception counts as a refusal."""
    try:
        return is_good(value)
    except Exception:  # of any kind, as Keras refuses values
        return False
