"""Chains of a sampler, in segments, between which they can be stopped."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_refine.functional import files

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

    program = tf.function(segment, autograph=False, jit_compile=jit_compile)
    state, results, traces = start, kernel.bootstrap_results(start), []
    arrays = checkpoint and checkpoint.load()
    if arrays is not None:
        state, results, traces = _unpack(arrays, results)
    bar = keras.utils.Progbar(
        num_steps, verbose=verbose, unit_name="transition"
    )
    for begin in range(len(traces) * _SEGMENT, num_steps, _SEGMENT):
        states, found, results = program(
            state, results, tf.constant([seed % 2**31, begin], tf.int32)
        )
        state = states[-1]
        traces.append(Trace(*(value.numpy() for value in found)))
        if checkpoint is not None:
            checkpoint.save(_pack(state, results, traces))
        bar.update(min(begin + _SEGMENT, num_steps))
    return Trace(
        *(
            np.concatenate(each)[:num_steps]
            for each in zip(*traces, strict=True)
        )
    )


def _pack(state, results, traces):
    """Returns what a file needs, a dict of arrays."""
    return {
        "state": state.numpy(),
        **files.pack(tf.nest.flatten(results), "results"),
        **{
            name: np.stack([getattr(one, name) for one in traces])
            for name in Trace._fields
        },
    }


def _unpack(arrays, like):
    """Returns what `_pack` was given; results are as `like`."""
    leaves = [
        tf.constant(value, tf.convert_to_tensor(leaf).dtype)
        for value, leaf in zip(
            files.unpack(arrays, "results"), tf.nest.flatten(like), strict=True
        )
    ]
    traces = [
        Trace(*values)
        for values in zip(*(arrays[n] for n in Trace._fields), strict=True)
    ]
    results = tf.nest.pack_sequence_as(like, leaves)
    return tf.constant(arrays["state"]), results, traces
