"""All members of a refinement, in compiled programs."""

import time

import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.functional import executor as executor_lib
from tfp_refine.functional import members
from tfp_refine.functional import streams
from tfp_refine.functional import train
from tfp_refine.functional import update_rules
from tfp_refine.math import philox
from tfp_refine.refinement import bound
from tfp_refine.refinement import member

_RULE = update_rules.Adam()
_TRIAL_STEPS = 5
# Weights that are conditioned at a time, in float64.
_CHUNK = 2**17


class Engine:
    """Compiled programs of a refinement; each is traced once.

    The executor's constants are the objective's `fixed`, of members without
    fixed weights of their own, and `data`; `programs` is a dict of the
    `Program`s. Of a `Stream` of data, programs of this process get a window for
    some steps, and the examples of the bounds.
    """

    def __init__(
        self, objective, settings, members_per_batch, vectorized, executor
    ):
        self._settings = settings
        self._objective = objective
        self.members_per_batch = members_per_batch
        self.vectorized = vectorized
        # Where steps are taken, and where bounds are evaluated.
        self._training = self._evaluation = self._executor = executor
        self._rows = None
        self.num_workers = executor.num_workers
        num_examples = objective.num_examples
        self._feed = streams.feed(
            objective.data,
            train.Batches(num_examples, settings.batch_size),
            settings.most_steps,
        )

        def loss(params, fixed, common, batch, key, step):
            nll = tf.reduce_mean(
                objective.nll(batch, params, fixed or common, key, step)
            )
            penalized = nll
            if objective.view.deterministic_weights:
                penalty = objective.view.penalty(params)
                penalized = nll + tf.cast(penalty, nll.dtype)
            return penalized, nll, fixed

        run = train.make_program(
            loss,
            _RULE,
            self._feed.batches,
            schedule=update_rules.decay(
                settings.learning_rate_decay, settings.most_steps
            ),
            extra_gradient=lambda params, constants: (
                tf.cast(constants[0], params.dtype)
                * member.kl_gradient(params, *constants[1:])
                / num_examples
            ),
            vectorized=vectorized,
            jit_compile=objective.jit_compile,
        )
        self.programs = {
            "condition": functional.Program(
                _condition, varying=(True,) * 4 + (False,) * 3
            ),
            "run": run,
            "evaluate": bound.evaluator(objective, vectorized),
        }

    def close(self):
        """Ends the work."""
        self._executor.close()

    def condition(self, state, ratio, keys):
        """Draws an auxiliary variable for each member and conditions on it.

        The arrays of the stacked `MemberState` are overwritten.
        """
        # Too little work to send it anywhere.
        program, ratio = self.programs["condition"], np.float64(ratio)
        for index, key in enumerate(keys):
            size = state.prior_loc.shape[-1]
            whole = (
                *state.params[index, :, :size],
                state.prior_loc[index],
                state.prior_scale[index],
            )
            for chunk, first in enumerate(range(0, size, _CHUNK)):
                rows = [value[first : first + _CHUNK] for value in whole]
                seed = np.array([key, chunk], np.int64)
                *values, paid = program(*rows, state.cost[index], ratio, seed)
                for row, value in zip(rows, values, strict=True):
                    row[...] = value
                state.cost[index] = paid

    def part(self, auxiliary, begin, end):
        """Returns the step, at most `end`, up to which `run` has its data."""
        end, part = self._feed.part(begin, end, auxiliary)
        if self._is_stream:
            self._training = self._with_data(part)
        return end

    def run(self, state, moments, keys, learning_rate, begin, end):
        """Takes optimization steps `begin` to `end` of each member.

        These are steps of one `part`. Adam's moments are a pair of
        `[M, 2, W]`, the learning rate is that before its decay. Yields a
        `train.Result` for each batch of members, in order.
        """
        dtype = state.params.dtype
        return self._in_batches(
            self._training,
            self.members_per_batch,
            self.programs["run"],
            (
                train.State(state.params, state.fixed, moments),
                (state.kl_scale, state.prior_loc, state.prior_scale),
                np.asarray(keys, np.int64),
            ),
            (
                tf.constant(learning_rate, dtype),
                tf.constant(begin, tf.int64),
                tf.constant(end, tf.int64),
            ),
        )

    def evaluate(self, state, keys, rows, num_samples):
        """Estimates log likelihood of all examples and KL of members.

        Both are nats, float64, `[M]`, from the examples `rows` and some draws.
        """
        # Which may be of a few members: then an equal part for each worker.
        share = -(-len(keys) // self.num_workers)
        if self._is_stream:
            # The same rows each time: read once.
            if not np.array_equal(rows, self._rows):
                self._evaluation = self._with_data(
                    self._objective.data.gather(rows)
                )
                self._rows = rows
            rows = np.arange(len(rows))
        return members.together(
            self._in_batches(
                self._evaluation,
                min(share, self.members_per_batch),
                self.programs["evaluate"],
                (state, np.asarray(keys, np.int64)),
                (
                    tf.constant(rows, tf.int32),
                    tf.constant(num_samples, tf.int64),
                ),
            )
        )

    @property
    def _is_stream(self):
        return isinstance(self._objective.data, streams.Stream)

    def _with_data(self, data):
        return executor_lib.LocalExecutor((self._objective.fixed, data))

    def _in_batches(self, executor, size, program, stacked, common):
        return executor.compute(
            program, common, members.batches(size, *stacked)
        )


def _condition(loc, raw, prior_loc, prior_scale, cost, ratio, seed):
    """Returns some weights of a member, and its cost, after a draw."""
    noise = philox.normal(tf.shape(loc), seed, tf.float64)
    after = member.condition_on_draw(
        member.MemberState(tf.stack([loc, raw]), prior_loc, prior_scale, cost),
        ratio,
        noise,
    )
    return (*tf.unstack(after.params), *after[1:4])


def make_engine(objective, settings, state):
    """Makes the engine that computes a refinement fastest.

    On a CPU, members that are mapped are faster and take less memory than
    members that are vectorized, as `benchmarks/refinement.py` shows. On an
    accelerator it depends on the model, as `benchmarks/gpu.py` shows: there
    both are tried.
    """
    constants = (objective.fixed, objective.data)
    if settings.coordinator is None:
        executor = executor_lib.LocalExecutor(constants)
        is_cpu = not tf.config.list_logical_devices("GPU")
    else:
        executor = executor_lib.ClusterExecutor(constants, settings.coordinator)
        is_cpu = True
    size = settings.members_at_a_time(objective.params.shape[-1])
    mapped, vectorized = (
        Engine(objective, settings, size, vectorized, executor)
        for vectorized in (False, True)
    )
    if settings.mapping == "vmap":
        return vectorized
    if settings.mapping == "map" or is_cpu:
        return mapped
    return faster(mapped, vectorized, settings, state)


def faster(first, second, settings, state):
    """Tries two engines for a few steps, and returns the faster one.

    The second may fail, for instance for want of memory.
    """
    seconds = _trial_seconds(first, settings, state)
    try:
        seconds_of_second = _trial_seconds(second, settings, state)
    except (tf.errors.OpError, TypeError, ValueError) as error:
        _validation.warn(
            f"Members cannot be vectorized, and are mapped: {error}",
            RuntimeWarning,
        )
        return first
    return first if seconds <= seconds_of_second else second


def _trial_seconds(engine, settings, state):
    """Returns the seconds of a few steps, after a first one that compiles."""
    for steps in (1, engine.part(0, 0, _TRIAL_STEPS)):
        begin = time.perf_counter()
        results = engine.run(
            state.members,
            state.moments,
            settings.members,
            settings.learning_rate,
            0,
            steps,
        )
        # Of the first batch of members: all would not fit on some devices.
        tf.nest.map_structure(lambda leaf: leaf.numpy(), next(iter(results)))
        seconds = time.perf_counter() - begin
    return seconds
