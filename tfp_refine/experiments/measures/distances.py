"""Distances of posteriors to the samples of NUTS."""

import dataclasses

import numpy as np

from tfp_refine import metrics
from tfp_refine.experiments import bench
from tfp_refine.experiments.harness import folder
from tfp_refine.experiments.systems import laplace
from tfp_refine.experiments.systems import registry


def distance(subject: bench.Subject) -> tuple[dict, dict]:
    """Measures the squared distance `"mmd"` to half of the samples of NUTS.

    That of NUTS itself is between its halves.

    Raises:
        bench.UnavailableError: If NUTS failed.
    """
    reference = reference_of(subject)
    of = subject.repetition
    try:
        sampled = of.fitted(reference)[0].posterior
    except (OSError, folder.DamagedError):
        raise
    except Exception as error:  # of any kind
        raise bench.UnavailableError(str(error)) from error
    half, other = halves(sampled.samples)
    if subject.expression == reference:
        samples = other
    elif registry.is_network(subject.expression):
        laplace = of.fitted(reference.argument)[0].posterior
        samples = laplace.loc[np.newaxis]
    else:
        samples = subject.fitted.posterior.sample(
            len(half), seed=subject.fit.seed("measures")
        )
    return {"mmd": metrics.mmd(half, samples)}, {}


def halves(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits samples `[T, chains, P]` into two of `[S, P]`, float64.

    Each gets every second chain, or every second sample of a single one.
    """
    samples = np.asarray(samples, np.float64)
    axis = 1 if samples.shape[1] > 1 else 0
    first, second = (
        np.take(samples, range(begin, samples.shape[axis], 2), axis)
        for begin in range(2)
    )
    size = samples.shape[-1]
    return first.reshape(-1, size), second.reshape(-1, size)


def reference_of(subject: bench.Subject) -> registry.Expression | None:
    """Finds the NUTS among the systems that a system is compared with.

    It samples the weights of the same layers of the same network: from the same
    Laplace approximation if there is such a one, whose prior it then has.
    """
    own = subject.expression
    found = [
        expression
        for expression in subject.bench.expressions().values()
        if expression.name == "nuts"
    ]
    if registry.is_network(own):
        found = [nuts for nuts in found if nuts.argument.argument == own]
        return found[0] if found else None
    base = own if own.name in laplace.NAMES else own.argument
    if base is None or base.name not in laplace.NAMES:
        return None
    found = [
        nuts
        for nuts in found
        if dataclasses.replace(nuts.argument, options=base.options) == base
    ]
    # The first of those that are as good.
    return min(found, key=lambda nuts: nuts.argument != base, default=None)


def _key(subject):
    """Returns the name of the reference, with its options."""
    return subject.repetition.path(reference_of(subject)).split("/")[-1]


DISTANCES = bench.Measure(
    "distances",
    distance,
    applies=lambda subject: reference_of(subject) is not None,
    key=_key,
)
