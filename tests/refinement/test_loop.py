"""The loop over auxiliary variables, with an engine that computes nothing."""

import time

import numpy as np
import pytest
import tensorflow as tf

from tests.support import linear_gaussian
from tfp_refine.functional import train
from tfp_refine.refinement import loop as loop_lib
from tfp_refine.refinement import member
from tfp_refine.refinement import starts as starts_lib
from tfp_refine.refinement import state as state_lib

NUM_EXAMPLES = 10
LOSS = 2.0


class Engine:
    """Notes its calls; each takes a second of a clock.

    Args:
        failing: Which members fail.
        size: Members whose steps are computed at a time.
    """

    num_workers = 1

    def __init__(self, failing=(), size=2):
        self.keys, self.rows, self.steps, self.moments = [], [], [], []
        self.params, self.num_samples = [], []
        self.seconds = 0.0
        self._failing, self._size = failing, size

    def condition(self, state, ratio, keys):
        self.keys.append(tuple(keys))
        state.cost[...] += 1.0

    def part(self, auxiliary, begin, end):
        return end

    def run(self, state, moments, keys, learning_rate, begin, end):
        self.keys.append(tuple(keys))
        self.steps.append((begin, end))
        self.moments.append(np.max(moments[0]))
        for first in range(0, len(keys), self._size):
            part = slice(first, first + self._size)
            self.seconds += 1.0
            size = len(keys[part])
            failed = np.full(size, -1)
            failed[
                [f - first for f in self._failing if f - first in range(size)]
            ] = begin
            # Which tells the member, and how often it has been here.
            params = (
                state.params[part] + np.reshape(keys[part], (-1, 1, 1)) % 97
            )
            self.params.append(params)
            slots = (moments[0][part] + 1.0, moments[1][part] + 2.0)
            yield train.Result(
                train.State(tf.constant(params), [], slots),
                tf.fill([size], LOSS),
                tf.constant(failed),
            )

    def evaluate(self, state, keys, rows, num_samples):
        assert len(keys) == len(state.params)
        self.num_samples.append(num_samples)
        self.keys.append(tuple(keys))
        self.rows.append(list(rows))
        self.seconds += 1.0
        zeros = tf.zeros([len(keys)], tf.float64)
        return zeros, zeros


class Checkpoint:
    """Notes when something is saved, which takes its seconds."""

    def __init__(self, engine, seconds=0.0):
        self._engine, self._seconds = engine, seconds
        self.saved_at = []

    def save(self, arrays):
        del arrays
        self.saved_at.append(self._engine.seconds)
        self._engine.seconds += self._seconds


def make(engine, checkpoint=None, clock=time.monotonic, **changes):
    """Returns a loop of the members 7 and 3."""
    settings = linear_gaussian.settings(
        **{
            "members": (7, 3),
            "variance_ratios": (0.7, 0.7),
            "steps": 20,
            "max_eval_examples": 6,
            **changes,
        }
    )
    weights = np.zeros(2)
    start = starts_lib.Start(
        np.zeros((2, 2)), (weights, weights + 1.0), fixed=[]
    )
    state = state_lib.RefinementState.begin([start], settings)
    return loop_lib.Loop(
        engine,
        settings,
        NUM_EXAMPLES,
        state,
        checkpoint,
        lambda *_: None,
        clock,
    )


def test_only_what_is_compared_has_the_same_draws():
    engine = Engine()
    make(engine, steps=1).finish()
    # Once for the whole, and for each of two auxiliary variables: a draw of
    # it, steps, bounds before and after them.
    first, *found, last = engine.keys
    for _, _, before, after in (found[:4], found[4:]):
        assert before == after
    keys = {key for pair in (first, *found, last) for key in pair}
    assert len(keys) == 2 * (2 * 3 + 2)
    alone = Engine()
    make(alone, steps=1, members=(3,)).finish()
    assert [pair[1:] for pair in engine.keys] == alone.keys


def test_choices_between_two_posteriors_take_a_third_of_the_draws():
    engine = Engine()
    make(engine, num_eval_samples=10).finish()
    assert engine.num_samples == [10, 4, 4, 4, 4, 10]


def test_all_bounds_are_of_the_same_examples():
    engine = Engine()
    make(engine).finish()
    rows = engine.rows[0]
    assert len(set(rows)) == 6
    # At first, before and after each of two auxiliary variables, at last.
    assert engine.rows == [rows] * 6
    engine = Engine()
    make(engine, max_eval_examples=NUM_EXAMPLES + 1).finish()
    assert engine.rows == [list(range(NUM_EXAMPLES))] * 6


def test_the_staircase_has_the_bounds_that_members_were_kept_by():
    class Rising(Engine):
        """Optimization raises the bound of the first member only."""

        def evaluate(self, state, keys, *arguments):
            super().evaluate(state, keys, *arguments)
            moved = np.any(state.params != 0.0, axis=(1, 2))
            bounds = np.where(moved, (3.0, -3.0)[: len(keys)], 1.0)
            return tf.constant(bounds), tf.zeros([len(keys)], tf.float64)

    loop = make(Rising(), variance_ratios=(0.7,))
    loop.finish()
    staircase = loop.state.staircase
    assert staircase["kept"].tolist() == [[True], [False]]
    # Each less the cost, 1.
    assert staircase["elbo_conditioned"].tolist() == [[0.0], [0.0]]
    assert staircase["elbo_aux"].tolist() == [[2.0], [0.0]]
    assert np.all(loop.state.members.params[0] != 0.0)
    assert np.all(loop.state.members.params[1] == 0.0)


def test_each_auxiliary_variable_begins_its_steps_anew():
    engine = Engine()
    make(engine, steps=15).finish()
    reports = [(begin, min(begin + 2, 15)) for begin in range(0, 15, 2)]
    assert engine.steps == reports * 2
    assert engine.moments == [*range(8)] * 2


def test_the_trace_has_the_cost_of_what_was_drawn():
    engine = Engine()
    loop = make(engine, steps=1)
    loop.finish()
    costs = np.array([[1.0, 1.0], [2.0, 2.0]])
    kl = [
        member.kl_divergence(params, np.zeros((2, 2)), np.ones((2, 2)))
        for params in engine.params
    ]
    expected = -NUM_EXAMPLES * LOSS - np.array(kl) - costs
    np.testing.assert_allclose(loop.state.trace_elbo, expected, rtol=1e-12)


def test_bounds_that_are_known_are_not_computed_again():
    engine = Engine()
    loop = make(engine, steps=1)
    loop.state.elbo_init[:] = -5.0, np.nan
    loop.finish()
    alone = Engine()
    make(alone, members=(3,)).finish()
    assert engine.keys[0] == alone.keys[0]
    np.testing.assert_array_equal(loop.state.elbo_init, [-5.0, 0.0])


def test_a_member_that_failed_has_no_bounds_and_keeps_its_reason():
    engine = Engine(failing=[1])
    loop = make(engine)
    loop.finish()
    assert loop.state.failures == {
        3: "its loss was not finite at step 0 (auxiliary variable 0)"
    }
    assert len(engine.keys[-1]) == 1  # nothing is computed for it in the end
    np.testing.assert_array_equal(loop.state.elbo_final, [-2.0, np.nan])
    np.testing.assert_array_equal(
        loop.state.staircase["elbo_aux"], [[-1.0, -2.0], [np.nan, np.nan]]
    )


@pytest.mark.parametrize(
    ("pause", "save_seconds", "expected"),
    [
        # At each report and each bound but those at which members are selected.
        (0.5, 0.0, [*range(1, 12), 13, *range(14, 24), 25, 26]),
        # Later twice as long as a save took; and after an auxiliary variable.
        (2.5, 2.0, [3, 10, 17, 24, 31, 35]),
    ],
)
def test_work_is_saved_now_and_then(pause, save_seconds, expected):
    engine = Engine()
    checkpoint = Checkpoint(engine, save_seconds)
    loop = make(engine, checkpoint, lambda: engine.seconds)
    loop.save_every, loop.save_ratio = pause, 2.0
    loop.finish()
    assert checkpoint.saved_at == expected


def test_each_member_pays_by_its_own_factor():
    class Paying(Engine):
        def evaluate(self, *arguments):
            zeros, _ = super().evaluate(*arguments)
            return zeros, zeros + 3.0

    loop = make(Paying(), num_members=8, kl_scale=[1.0] * 7 + [0.1])
    loop.finish()
    # Members 7 and 3 pay for 3 nats, and for 1 for each auxiliary variable.
    np.testing.assert_allclose(loop.state.elbo_final, [-0.5, -5.0])
