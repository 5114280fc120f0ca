"""The choice between members that are mapped and members that are vectorized.

On a CPU mapped members are faster and take less memory, as
`benchmarks/refinement.py` shows. On an accelerator it depends on the model:
there both are tried, but for the workers of a cluster.
"""

import time
import warnings

import tensorflow as tf

from tfp_refine.refinement import engine as engine_lib
from tfp_refine.refinement import places

_TRIAL_STEPS = 5


def make_engine(problem, settings, execution, progress):
    """Makes the engine that computes a refinement fastest.

    Args:
        problem: `Problem`.
        settings: `Settings`.
        execution: `Execution`.
        progress: `Progress`, for a trial; it is not changed.

    Returns:
        engine: `Engine`.
    """
    constants = (problem.others, problem.data)
    workers = execution.coordinator is not None
    place = (
        places.Workers(constants, execution.coordinator)
        if workers
        else places.Here(constants)
    )
    mapped, vectorized = (
        engine_lib.Engine(
            problem, settings, execution.members_per_batch, vectorized, place
        )
        for vectorized in (False, True)
    )
    if execution.mapping == "auto":
        if workers or not tf.config.list_logical_devices("GPU"):
            return mapped
        return faster(mapped, vectorized, progress, settings)
    return vectorized if execution.mapping == "vectorized" else mapped


def faster(first, second, progress, settings):
    """Tries two engines for a few steps, and returns the faster one.

    Args:
        first: `Engine`.
        second: `Engine`, which may fail, for instance for want of memory.
        progress: `Progress` that tells the state to try them on.
        settings: `Settings`.

    Returns:
        engine: One of the two.
    """
    seconds = _trial_seconds(first, progress, settings)
    try:
        seconds_of_second = _trial_seconds(second, progress, settings)
    except (tf.errors.OpError, TypeError, ValueError) as error:
        warnings.warn(
            f"Members cannot be vectorized, and are mapped: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return first
    return first if seconds <= seconds_of_second else second


def _trial_seconds(engine, progress, settings):
    """Returns the seconds of a few steps, after a first one that compiles."""
    for steps in (1, _TRIAL_STEPS):
        begin = time.perf_counter()
        results = engine.run(
            progress.state,
            progress.moments,
            settings.members,
            settings.learning_rate,
            0,
            steps,
        )
        tf.nest.map_structure(lambda leaf: leaf.numpy(), list(results))
        seconds = time.perf_counter() - begin
    return seconds
