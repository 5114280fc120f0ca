"""Chains of a sampler, in segments, between which they can be stopped."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_refine.functional import files
from tfp_refine.functional import program
from tfp_refine.functional import progress

# Transitions between which Python shows, and saves, how far it is.
_SEGMENT = 25


class Trace(NamedTuple):
    """States, divergences and leapfrog steps, `[T, chains, ...]` each."""

    z: np.ndarray
    diverges: np.ndarray
    leapfrogs: np.ndarray


def sample(
    kernel, start, num_steps, seed, *, jit_compile, verbose, checkpoint=None
):
    """Runs chains of the no-U-turn sampler, one compiled program for all.

    `kernel` wraps a `NoUTurnSampler`; `start` is `[chains, D]`. Returns a
    `Trace` of arrays `[T, chains, ...]`, of `num_steps` transitions.
    """

    def trace(state, results):
        inner = results.inner_results
        return Trace(state, inner.has_divergence, inner.leapfrogs_taken)

    def segment(state, results, seed):
        return tfp.mcmc.sample_chain(
            _SEGMENT,
            state,
            results,
            kernel,
            trace_fn=trace,
            return_final_kernel_results=True,
            seed=seed,
        )

    run = program.Program(segment, jit_compile=jit_compile)
    first = start, kernel.bootstrap_results(start)
    (state, results), traces = first, []
    arrays = checkpoint and checkpoint.load()
    if arrays is not None:
        state, results = tf.nest.map_structure(
            lambda leaf, saved: tf.constant(
                saved, tf.convert_to_tensor(leaf).dtype
            ),
            first,
            tf.nest.pack_sequence_as(first, files.unpack(arrays, "state")),
        )
        traces = [Trace(*(arrays[name] for name in Trace._fields))]
    bar = progress.Progress("NUTS", num_steps, verbose, unit="transitions")
    done = sum(len(one.z) for one in traces)
    for begin in range(done, num_steps, _SEGMENT):
        states, found, results = run(
            state, results, tf.constant([seed % 2**31, begin], tf.int32)
        )
        state = states[-1]
        traces.append(Trace(*(value.numpy() for value in found)))
        if checkpoint is not None:
            leaves = tf.nest.flatten((state, results))
            checkpoint.save(
                files.pack(leaves, "state") | _concatenate(traces)._asdict()
            )
        bar.update(min(begin + _SEGMENT, num_steps))
    return Trace(*(value[:num_steps] for value in _concatenate(traces)))


def _concatenate(traces):
    return Trace(*map(np.concatenate, zip(*traces, strict=True)))
