"""Training of members: one compiled loop of stochastic gradient steps."""

from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from tfp_refine.functional import draws_first
from tfp_refine.functional import members
from tfp_refine.functional import program
from tfp_refine.math import philox


class State(NamedTuple):
    """Values that training changes, stacked: `[M, ...]` each.

    Attributes:
        params: Trained values, `[M, ...]` (or nested).
        fixed: Weights that a call of the model updates, such as moving
            averages, a list; empty where they stay as they are.
        slots: State of the update rule.
    """

    params: Any
    fixed: Any
    slots: Any


class Result(NamedTuple):
    """Members after some steps.

    Attributes:
        state: `State`.
        loss: Mean loss of the steps, float64, `[M]`.
        failed_step: First step whose loss was not finite, where the member
            stopped, or -1, int64, `[M]`.
    """

    state: State
    loss: tf.Tensor
    failed_step: tf.Tensor


class Batches(NamedTuple):
    """Order in which a member sees the examples.

    Each epoch is a new permutation, without its last, smaller batch. If all
    examples fit in a batch, each step takes all of them. With `bootstrap` each
    member has `N` examples of its own, drawn with replacement.
    """

    num_examples: int
    batch_size: int
    bootstrap: bool = False

    @property
    def size(self):
        """Examples in a step, at most `N`."""
        return min(self.batch_size, self.num_examples)

    @property
    def per_epoch(self):
        """Number of steps in an epoch."""
        return max(1, self.num_examples // self.batch_size)

    @property
    def takes_all(self):
        """True if each step takes all examples."""
        return self.num_examples <= self.batch_size

    def rows(self, key):
        """Returns the examples of a member, int64, `[N]`.

        TensorFlow keeps int32 in the memory of the host, and would send those
        of each step to an accelerator.
        """
        if not self.bootstrap:
            return tf.range(self.num_examples, dtype=tf.int64)
        rows = philox.uniform(
            [self.num_examples],
            _pair(key, _BOOTSTRAP),
            tf.int32,
            maxval=self.num_examples,
        )
        return tf.cast(rows, tf.int64)

    def order(self, rows, step, key):
        """Permutes the examples of a member, for the epoch of a step."""
        if self.takes_all:
            return rows
        # Draws of layers use the steps, from 0 up: stay below these.
        return philox.shuffle(rows, _pair(key, -1 - step // self.per_epoch))

    def reshuffle(self, order, rows, step, key):
        """Permutes the examples anew at the start of each epoch."""
        if self.takes_all:
            return order
        return tf.cond(
            step % self.per_epoch == 0,
            lambda: self.order(rows, step, key),
            lambda: order,
        )

    def take(self, data, order, step):
        """Returns the batch of a step, of one member or stacked."""
        if not self.takes_all:
            first = tf.cast(step % self.per_epoch, tf.int32) * self.size
            stacked, last = order.shape[:-1], first + self.size
            order = order[..., first:last]
            order.set_shape([*stacked, self.size])
        elif not self.bootstrap and order.shape.rank == 1:
            return data
        return keras.tree.map_structure(lambda v: tf.gather(v, order), data)


def make_program(
    loss,
    update_rule,
    batches,
    *,
    schedule=None,
    extra_gradient=None,
    vectorized=False,
    jit_compile=False,
):
    """Returns the `Program` that trains members; Python does no step.

    Members are mapped inside the graph, each with its whole loop of steps; or
    each step is taken by all at once, if `vectorized`. A member's result
    depends on its own state, constants and key alone.

    Args:
        loss: Function `(params, fixed, common, batch, key, step)` of one member
            to the scalar whose gradient is followed, the scalar to report, and
            `fixed` after the call.
        update_rule: Object of `update_rules`.
        batches: `Batches`.
        schedule: Function of a step to the factor of its rate, or `None`.
        extra_gradient: Function `(params, constants)` of one member to a
            summand of the gradient, or `None`.
        vectorized: Whether each operation is for all members at once.
        jit_compile: Whether XLA compiles a step. It cannot shuffle: examples
            are permuted between steps.

    Returns:
        program: `Program` of `(state, constants, keys, learning_rate, begin,
            end, common, data)` to a `Result`: a stacked `State`; constants of
            members (nested, perhaps empty) and keys of their random streams,
            `[M, ...]`; a scalar; the first step and the one after the last;
            values that members share; the data `[N, ...]` (nested).
    """

    def take_step(state, constants, key, learning_rate, step, common, batch):
        params = state.params
        with tf.GradientTape() as tape:
            tape.watch(params)
            objective, reported, fixed = loss(
                params, state.fixed, common, batch, key, step
            )
        gradient = tape.gradient(objective, params)
        if extra_gradient is not None:
            extra = extra_gradient(params, constants)
            gradient = tf.nest.map_structure(tf.add, gradient, extra)
        rate = learning_rate
        if schedule is not None:
            rate = rate * tf.cast(schedule(step), rate.dtype)
        params, slots = update_rule.step(
            params, gradient, state.slots, step, rate, key
        )
        return State(params, fixed, slots), reported

    def take_steps_at_once(keys, stacked, shared, step):
        def one(key, stacked, shared, step):
            (state, constants, batch), (rate, common) = stacked, shared
            return take_step(state, constants, key, rate, step, common, batch)

        return draws_first.vectorize(one, keys, stacked, shared, step)

    one_step, all_steps = take_step, take_steps_at_once
    if jit_compile:
        one_step, all_steps = map(program.under_xla, (one_step, all_steps))

    def trace(state, constants, keys, learning_rate, begin, end, common, data):
        def one(arguments):
            state, constants, key = arguments
            rows = batches.rows(key)

            def body(step, state, order, total):
                order = batches.reshuffle(order, rows, step, key)
                batch = batches.take(data, order, step)
                state, reported = one_step(
                    state, constants, key, learning_rate, step, common, batch
                )
                total += tf.cast(reported, tf.float64)
                return step + 1, state, order, total

            # A loss that is not finite leaves no finite sum.
            stop, state, _, total = tf.while_loop(
                lambda step, state, order, total: (
                    (step < end) & tf.math.is_finite(total)
                ),
                body,
                (
                    begin,
                    state,
                    batches.order(rows, begin, key),
                    tf.zeros([], tf.float64),
                ),
                parallel_iterations=1,
            )
            failed = tf.where(
                tf.math.is_finite(total), tf.constant(-1, tf.int64), stop - 1
            )
            steps = tf.cast(tf.maximum(end - begin, 1), tf.float64)
            return Result(state, total / steps, failed)

        like = Result(state, tf.zeros_like(keys, tf.float64), keys)
        return members.map_members(one, (state, constants, keys), like)

    def trace_vectorized(
        state, constants, keys, learning_rate, begin, end, common, data
    ):
        def orders(step):
            return members.map_members(
                lambda key: batches.order(batches.rows(key), step, key),
                keys,
                tf.zeros([1, batches.num_examples], tf.int64),
            )

        def body(step, state, order, total, failed):
            if not batches.takes_all:
                order = tf.cond(
                    step % batches.per_epoch == 0,
                    lambda: orders(step),
                    lambda: order,
                )
            # Each member has inputs of its own, even where they are the same:
            # TensorFlow's vectorized gradient of a grouped convolution is wrong
            # for inputs that members share.
            batch = batches.take(data, order, step)
            state, reported = all_steps(
                keys, (state, constants, batch), (learning_rate, common), step
            )
            total += tf.cast(reported, tf.float64)
            fails = (failed < 0) & ~tf.math.is_finite(total)
            return step + 1, state, order, total, tf.where(fails, step, failed)

        # A member that failed goes on, of no use, as long as another works.
        _, state, _, total, failed = tf.while_loop(
            lambda step, state, order, total, failed: (
                (step < end) & tf.reduce_any(failed < 0)
            ),
            body,
            (
                begin,
                state,
                orders(begin),
                tf.zeros_like(keys, tf.float64),
                -tf.ones_like(keys),
            ),
            parallel_iterations=1,
        )
        steps = tf.cast(tf.maximum(end - begin, 1), tf.float64)
        return Result(state, total / steps, failed)

    if vectorized:
        trace = trace_vectorized
    return program.Program(trace, varying=(True,) * 3 + (False,) * 5)


def take_steps(program, feed, state, keys, learning_rate, begin, end):
    """Takes steps of members without constants, part after part of the data.

    `feed` is one of `streams.feed`, other arguments and `program` are of
    `make_program`. Returns the state, and the mean loss of the steps, `[M]`.
    Raises a `FloatingPointError` if a member stopped.
    """
    first, mean = begin, 0.0
    while begin < end:
        stop, part = feed.part(begin, end)
        result = program(
            state,
            (),
            keys,
            learning_rate,
            tf.constant(begin, tf.int64),
            tf.constant(stop, tf.int64),
            (),
            part,
        )
        check_finite(result, begin, stop)
        # Of a single part this is its loss, bit for bit.
        share = (stop - begin) / (stop - first)
        mean += (result.loss.numpy() - mean) * share
        state, begin = result.state, stop
    return state, mean


def check_finite(result, begin, end):
    """Raises a `FloatingPointError` if a member stopped."""
    for member, step in enumerate(result.failed_step.numpy()):
        if step >= 0:
            raise FloatingPointError(
                f"The loss of member {member} was not finite at step {step} "
                f"(steps {begin} to {end}). A lower learning rate may help."
            )


# Numbers of a member's random streams: epochs count down from -1, steps up from
# 0, the noise of update rules up from 2**40.
_BOOTSTRAP = -(2**40)


def _pair(key, number):
    return tf.stack([key, tf.cast(number, tf.int64)])
