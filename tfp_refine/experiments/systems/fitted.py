"""A system that has been fitted."""

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np

from tfp_refine import functional
from tfp_refine import posteriors


class Fitted(NamedTuple):
    """A fitted system.

    Attributes:
        draws: Function of inputs, `[N, ...]`, that returns draws of the
            network's outputs, `[S, N, C]`: logits, or means and raw scales.
        num_steps: Gradient steps, with those of the system it starts from.
        num_numbers: Numbers that predictions need.
        model: The trained network, of systems that are one.
        posterior: The posterior, of others.
        history: Segments of a training, as `training.Training.history`.
        diagnostics: Numbers for tables.
        seconds: Time of the fit, if it is not that between its two ends.
    """

    draws: Callable[[np.ndarray], np.ndarray]
    num_steps: int
    num_numbers: int
    model: keras.Model | None = None
    posterior: posteriors.Posterior | None = None
    history: list[dict[str, float]] | None = None
    diagnostics: dict[str, float] | None = None
    seconds: float | None = None


def predictive(
    source: keras.Model | posteriors.Posterior, num_draws: int, seed: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the `Fitted.draws` of a compiled model or a posterior."""
    if isinstance(source, keras.Model):
        link = functional.links.find(source)
    else:
        link = source.link
    return lambda x: logits(
        posteriors.predict(source, x, num_draws, seed=seed), link
    )


def logits(
    outputs: np.ndarray, link: functional.links.Link | None
) -> np.ndarray:
    """Returns logits of all classes, `[..., C]`, for a softmax.

    They are `[..., 2]` for `[..., 1]` outputs. Without a link, of a regression,
    outputs are returned as they are.
    """
    if link is None or link == ("softmax", True):
        return outputs
    return log(np.asarray(link.probabilities(outputs)))


def log(probs: np.ndarray) -> np.ndarray:
    """Returns logarithms of probabilities, finite."""
    return np.log(np.maximum(probs, np.finfo(probs.dtype).tiny))
