"""All members of a refinement, in compiled programs."""

import math
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.functional import example_loss
from tfp_refine.math import adam
from tfp_refine.refinement import evaluator as evaluator_lib
from tfp_refine.refinement import member
from tfp_refine.refinement import members


class StepResult(NamedTuple):
    """What a run of optimization steps returns, for each member.

    Attributes:
        params: `[M, 2, W]`.
        moments: `AdamState` of `[M, 2, W]`.
        loss: Minibatches' mean negative log likelihood, plus the KL after the
            last step, nats for each example, `[M]`.
        failed_step: First step whose likelihood was not finite, or -1, `[M]`.
    """

    params: tf.Tensor
    moments: adam.AdamState
    loss: tf.Tensor
    failed_step: tf.Tensor


class Engine:
    """Compiled programs of a refinement; each is traced once.

    Members are mapped inside the graph, each with its whole loop of steps, so
    Python does nothing for a single step.

    Args:
        problem: `Problem`.
        settings: `Settings`.
        members_per_batch: Members that are computed at a time.
        vectorized: As for `members.map_members`.
        place: Where: `places.Here` or `places.Workers`, with the problem's
            `others` and `data` as constants.
    """

    def __init__(self, problem, settings, members_per_batch, vectorized, place):
        self._problem = problem
        self._settings = settings
        self._members_per_batch = members_per_batch
        self._vectorized = vectorized
        self._place = place
        self._num_examples = problem.num_examples
        self._evaluator = evaluator_lib.Evaluator(problem, vectorized)
        self._condition = functional.Program(
            self._trace_condition, varying=(True, True, False)
        )
        self._run = functional.Program(
            self._trace_run, varying=(True,) * 3 + (False,) * 5
        )

    @property
    def num_workers(self):
        """Number of processes that compute members side by side."""
        return self._place.num_workers

    def close(self):
        """Ends the work."""
        self._place.close()

    def trace_counts(self):
        """Returns how often each program was traced."""
        return {
            "condition": self._condition.trace_count,
            "run": self._run.trace_count,
            "evaluate": self._evaluator.program.trace_count,
        }

    def condition(self, state, ratio, keys):
        """Draws an auxiliary variable for each member and conditions on it.

        Args:
            state: Stacked `MemberState`.
            ratio: Variance ratio in (0, 1).
            keys: Keys of the members' random streams, `[M]`.

        Returns:
            state: Stacked `MemberState`.
        """
        ratio = tf.constant(ratio, tf.float64)
        batches = members.batches(
            self._members_per_batch, state, np.asarray(keys, np.int64)
        )
        # Too little work to send it anywhere.
        return members.together(
            self._condition(*batch, ratio) for batch in batches
        )

    def run(self, state, moments, keys, learning_rate, begin, end):
        """Runs optimization steps `begin` to `end` for each member.

        Args:
            state: Stacked `MemberState`.
            moments: Stacked `AdamState`.
            keys: Keys of the members' random streams, `[M]`.
            learning_rate: Scalar, before its decay.
            begin: First step.
            end: Step after the last.

        Yields:
            result: `StepResult` of a batch of members, in their order.
        """
        return self._in_batches(
            self._members_per_batch,
            self._run,
            (state, moments, keys),
            (
                tf.constant(learning_rate, state.params.dtype),
                tf.constant(begin, tf.int64),
                tf.constant(end, tf.int64),
            ),
        )

    def evaluate(self, state, keys, rows):
        """Estimates each member's bound, as `Evaluator` does."""
        # Which may be of a few members: then an equal part for each worker.
        share = -(-len(keys) // self.num_workers)
        return members.together(
            self._in_batches(
                min(share, self._members_per_batch),
                self._evaluator.program,
                (state, keys),
                (
                    tf.constant(rows, tf.int32),
                    tf.constant(self._settings.num_eval_samples, tf.int64),
                ),
            )
        )

    def _in_batches(self, size, program, stacked, common):
        *states, keys = stacked
        batches = members.batches(size, *states, np.asarray(keys, np.int64))
        return self._place.compute(program, common, batches)

    def _trace_condition(self, state, keys, ratio):
        def one(arguments):
            state, key = arguments
            noise = tf.random.stateless_normal(
                state.prior_loc.shape,
                seed=tf.stack([key, 0]),
                dtype=tf.float64,
            )
            return member.condition_on_draw(state, ratio, noise)

        return self._map(one, (state, keys), like=state)

    def _map(self, one, stacked, like):
        return members.map_members(one, stacked, like, self._vectorized)

    def _trace_run(
        self, state, moments, keys, learning_rate, begin, end, others, data
    ):
        settings = self._settings

        def one(arguments):
            state, moments, key = arguments

            def body(step, params, moments, order, total, failed):
                order = self._reshuffle(order, step, begin, key)
                x, y = self._batch(data, order, step, key)
                nll, gradient = self._nll_and_gradient(
                    state, params, others, x, y, key, step
                )
                rate = learning_rate * _decay(
                    settings.learning_rate_decay,
                    step,
                    settings.steps,
                    learning_rate.dtype,
                )
                failed = tf.where(tf.math.is_finite(nll), failed, step)
                params, moments = adam.step(
                    params, gradient, moments, step, rate
                )
                return step + 1, params, moments, order, total + nll, failed

            def alive(step, params, moments, order, total, failed):
                return (step < end) & (failed < 0)

            dtype = state.params.dtype
            _, params, moments, _, total, failed = tf.while_loop(
                alive,
                body,
                (
                    begin,
                    state.params,
                    moments,
                    tf.range(self._num_examples),
                    tf.zeros([], dtype),
                    tf.constant(-1, tf.int64),
                ),
                parallel_iterations=1,
            )
            kl = member.kl_divergence(
                params, state.prior_loc, state.prior_scale
            )
            mean = total / tf.cast(tf.maximum(end - begin, 1), dtype)
            loss = mean + kl / self._num_examples
            return StepResult(params, moments, loss, failed)

        like = StepResult(
            state.params,
            moments,
            tf.zeros_like(keys, state.params.dtype),
            keys,
        )
        return self._map(one, (state, moments, keys), like=like)

    def _nll_and_gradient(self, state, params, others, x, y, key, step):
        """Computes a minibatch's loss, without its KL, and its gradient."""
        with tf.GradientTape() as tape:
            tape.watch(params)
            outputs = self._problem.forward(x, params, others, key, step)
            nll = tf.reduce_mean(
                example_loss.negative_log_likelihood(
                    self._problem.loss, y, outputs
                )
            )
            objective = nll
            if self._settings.refine_deterministic:
                penalty = self._problem.layout.point_penalty(params)
                objective = nll + tf.cast(penalty, nll.dtype)
        gradient = tape.gradient(objective, params)
        kl_gradient = member.kl_gradient(
            params, state.prior_loc, state.prior_scale
        )
        return (
            tf.cast(nll, params.dtype),
            gradient + kl_gradient / self._num_examples,
        )

    def _batches_per_epoch(self):
        return max(1, self._num_examples // self._settings.batch_size)

    def _reshuffle(self, order, step, begin, key):
        """Permutes the examples, anew at the start of each epoch."""
        if not self._is_subsampled():
            return order
        epoch, position = (
            step // self._batches_per_epoch(),
            step % self._batches_per_epoch(),
        )
        return tf.cond(
            (position == 0) | (step == begin),
            # The layers' draws use the steps, from 0 up: stay below these.
            lambda: tf.random.experimental.stateless_shuffle(
                tf.range(self._num_examples), seed=tf.stack([key, -1 - epoch])
            ),
            lambda: order,
        )

    def _is_subsampled(self):
        return self._num_examples > self._settings.batch_size

    def _batch(self, data, order, step, key):
        if self._is_subsampled():
            size = self._settings.batch_size
            first = tf.cast(step % self._batches_per_epoch(), tf.int32) * size
            rows = order[first : first + size]
            rows = tf.ensure_shape(rows, [size])
        elif self._vectorized:
            # TensorFlow's vectorized gradient of a grouped convolution is wrong
            # for inputs that members share: give each member its own.
            rows = order + tf.cast(0 * key, order.dtype)
        else:
            return data
        return keras.tree.map_structure(lambda v: tf.gather(v, rows), data)


def _decay(name, step, steps, dtype):
    """Computes the factor on the learning rate before step `step`."""
    done = tf.cast(step, dtype) / steps
    if name == "linear":
        return 1.0 - done
    if name == "cosine":
        return 0.5 * (1.0 + tf.cos(tf.constant(math.pi, dtype) * done))
    return tf.ones([], dtype)
