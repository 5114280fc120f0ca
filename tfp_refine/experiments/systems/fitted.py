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
        draws: Function of inputs, `[N, ...]`, that returns draws of what the
            network returns, `[S, N, C]`: logits, or means and raw scales.
        num_steps: Gradient steps that it took, those that it starts from
            included.
        num_numbers: Numbers that predictions need.
        model: The trained network, of systems that are one.
        posterior: The `posteriors.Posterior`, of others.
        history: Segments of a training, as `training.Training.history`.
        diagnostics: Dict of floats, for tables.
        seconds: Time of the fit, where a clock around it does not tell: it is
            `None` elsewhere.
    """

    draws: Callable[[np.ndarray], np.ndarray]
    num_steps: int
    num_numbers: int
    model: keras.Model | None = None
    posterior: object = None
    history: list | None = None
    diagnostics: dict | None = None
    seconds: float | None = None


def predictive(source, num_draws, seed):
    """Returns `Fitted.draws` of a compiled `keras.Model` or a posterior."""
    if isinstance(source, keras.Model):
        link = functional.objective.find_link(source)
    else:
        link = source.link
    return lambda x: logits(
        posteriors.predict(source, x, num_draws, seed=seed), link
    )


def logits(outputs, link):
    """Returns logits of all classes, of which a softmax makes probabilities.

    Args:
        outputs: What a classifier returns, `[..., C]`, or `[..., 1]`.
        link: `functional.objective.Link`, or `None` of a regression.

    Returns:
        logits: `[..., C]`, or `[..., 2]`; outputs of a regression.
    """
    if link is None or link == ("softmax", True):
        return outputs
    return log(np.asarray(link.probabilities(outputs)))


def log(probs):
    """Returns logarithms of probabilities, finite."""
    return np.log(np.maximum(probs, np.finfo(probs.dtype).tiny))
