"""Check of an argument that is an array of numbers."""

from typing import Any

import numpy as np


def array(
    name: str, value: Any, *shape: int | None, finite: bool = True
) -> np.ndarray:
    """Checks that an argument holds real numbers; returns them in float64.

    `shape` has the length of each axis, or `None` for any; without it, all
    shapes are good.
    """
    wanted = "finite numbers" if finite else "numbers"
    try:
        found = np.asarray(value)
    except (TypeError, ValueError):  # rows of several lengths
        found = np.asarray(None)
    if found.dtype.kind not in "biuf" or (
        finite and not np.all(np.isfinite(found))
    ):
        raise ValueError(
            f"`{name}` must be an array of {wanted}. Received: {name}={value!r}"
        )
    if shape and (
        not found.size
        or found.ndim != len(shape)
        or any(
            n not in (None, m) for n, m in zip(shape, found.shape, strict=True)
        )
    ):
        axes = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(
            f"`{name}` must have shape [{axes}] and not be empty. Received: "
            f"shape {list(found.shape)}"
        )
    return found.astype(np.float64)


def weights(name: str, value: Any, count: int | None) -> np.ndarray:
    """Checks the weights of a mixture; returns them with the sum 1."""
    found = array(name, value, count)
    # As precise as float32 is.
    if np.any(found < 0.0) or not np.isclose(found.sum(), 1.0, rtol=1e-5):
        raise ValueError(
            f"`{name}` must not be negative, and have the sum 1. "
            f"Received: {name}={found.tolist()}"
        )
    return found / found.sum()
