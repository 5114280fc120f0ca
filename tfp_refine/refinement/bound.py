"""The bound of each member, estimated in a compiled program."""

import functools
import math

import keras
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.functional import draws_first
from tfp_refine.functional import members
from tfp_refine.functional import program
from tfp_refine.refinement import member

# Rows that are computed at a time, fewer of inputs with many numbers.
_BLOCK = 2048
_BLOCK_SIZE = 2**21
# Weights whose KL divergence is computed at a time.
_CHUNK = 2**17


def evaluator(objective, vectorized=False):
    """Compiles the bound of each member, but for its cost.

    The `Program` takes a stacked `MemberState`, keys of the members' random
    streams `[M]`, indices of training examples `[n]`, int32, the number of
    weight draws, int64, and the objective's `fixed`, of members without fixed
    weights of their own, and `data`. It returns the expected log likelihood of
    all `N` examples, and the KL divergence of the posterior from its
    conditional prior, both nats, float64, `[M]`.
    """

    def trace(state, keys, rows, num_samples, fixed, data):
        def expected(arguments):
            params, own, key = arguments
            return expected_log_likelihood(
                objective, params, fixed, data, rows, key, num_samples, own
            )

        stacked = (state.params, state.fixed, keys)
        if vectorized:
            log_likelihood = expected(stacked)
        else:
            log_likelihood = members.map_members(expected, stacked, state.cost)
        return log_likelihood, members.map_members(
            lambda one: _kl_divergence(*one), state[:3], state.cost
        )

    return functional.Program(
        trace, varying=(True, True, True, False, False, False)
    )


def expected_log_likelihood(
    objective, params, fixed, data, rows, key, num_samples, own=()
):
    """Estimates the expected log likelihood of all `N` examples, nats.

    It uses the examples `rows [n]`, int32, and `num_samples` weight draws.
    Returns a float64 scalar, in a trace; of stacked `params`, keys and `own`
    fixed weights, if any, all at once, `[M]`.
    """
    total = log_likelihood_of_draws(
        objective, params, fixed, data, rows, key, num_samples, own=own
    )
    count = num_samples * tf.shape(rows, tf.int64)[0]
    return objective.num_examples * (total / tf.cast(count, tf.float64))


def log_likelihood_of_draws(
    objective,
    params,
    fixed,
    data,
    rows,
    key,
    num_samples,
    first_block=0,
    num_blocks=None,
    own=(),
):
    """Computes the log likelihood of the examples `rows`, of all draws, nats.

    Arguments and result are those of `expected_log_likelihood`. Each block of
    rows has its own noise: `rows` start with block `first_block` of all
    `num_blocks`; if `None`, these rows are all.
    """
    num_rows = tf.shape(rows, tf.int64)[0]
    size = block_rows(data[0])
    blocks = (num_rows + size - 1) // size
    if num_blocks is None:
        num_blocks = blocks

    def block_nll(key, weights, shared, index):
        (params, own), (fixed, batch) = weights, shared
        nll = objective.nll(batch, params, own or fixed, key, index)
        nll = tf.cast(nll, tf.float64)
        if nll.shape.rank == 0:  # a mean over the block
            size = tf.shape(keras.tree.flatten(batch)[0])[0]
            return nll * tf.cast(size, tf.float64)
        return tf.reduce_sum(nll)

    compute = block_nll
    if key.shape.rank == 1:
        compute = functools.partial(draws_first.vectorize, block_nll)
    if objective.jit_compile:
        compute = program.under_xla(compute)

    def body(index, total):
        draw, number = index // blocks, index % blocks
        first = number * size
        block = rows[first : first + size]
        batch = keras.tree.map_structure(
            lambda value: tf.gather(value, block), data
        )
        call = draw * num_blocks + first_block + number
        return index + 1, total - compute(
            key, (params, own), (fixed, batch), call
        )

    _, total = tf.while_loop(
        lambda index, total: index < num_samples * blocks,
        body,
        (tf.constant(0, tf.int64), tf.zeros_like(key, tf.float64)),
        parallel_iterations=1,
    )
    return total


def _kl_divergence(params, prior_loc, prior_scale):
    """Computes `KL(q(w) || p(w | a_1:k))`, nats, a float64 scalar, in a trace.

    A part of the weights at a time, as float64 takes much memory.
    """

    def body(first, total):
        part = [
            tf.cast(value[..., first : first + _CHUNK], tf.float64)
            for value in (params[:, :size], prior_loc, prior_scale)
        ]
        return first + _CHUNK, total + member.kl_divergence(*part)

    size = prior_loc.shape[-1]
    _, total = tf.while_loop(
        lambda first, total: first < size,
        body,
        (tf.constant(0), tf.zeros([], tf.float64)),
        parallel_iterations=1,
    )
    return total


def block_rows(x):
    """Returns how many rows of inputs are computed at a time."""
    numbers = sum(math.prod(leaf.shape[1:]) for leaf in keras.tree.flatten(x))
    return max(1, min(_BLOCK, _BLOCK_SIZE // max(1, numbers)))
