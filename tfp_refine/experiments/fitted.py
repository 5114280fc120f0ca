"""What the comparison knows of a system that has been fitted."""

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np


class Fitted(NamedTuple):
    """A fitted system.

    Attributes:
        draws: Function of inputs, `[N, ...]`, to what the network returns,
            `[S, N, K]`: logits, or means and raw scales.
        num_steps: Gradient steps that it took, those of its bases included.
        num_numbers: Numbers that predictions need.
        model: Trained network, of those that are one.
        posterior: What was fitted, of others.
        history: `training.Training.history`, or `None`.
        about: Dict of floats that are to be said of it.
        seconds: Time that it took, if it is known better than by a clock.
    """

    draws: Callable[[np.ndarray], np.ndarray]
    num_steps: int
    num_numbers: int
    model: keras.Model | None = None
    posterior: object = None
    history: list | None = None
    about: dict | None = None
    seconds: float | None = None
