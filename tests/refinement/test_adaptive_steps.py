"""Refinement whose steps follow the gain of each auxiliary variable."""

import numpy as np
import pytest

import tfp_refine as tfr
from tests.refinement import test_loop
from tests.support import linear_gaussian
from tests.support import small_streams
from tfp_refine import plotting
from tfp_refine.functional import resumable
from tfp_refine.refinement import AdaptiveSteps

CASE = linear_gaussian.LinearGaussian()


def bounds(*means, spread=0.0):
    """Returns bounds of three members, which differ alike in all checks."""
    offset = np.array([0.0, 100.0, -100.0])
    noise = spread * np.array([-1.0, 0.0, 1.0])
    return [mean + offset + i * noise for i, mean in enumerate(means)]


@pytest.mark.parametrize(
    ("checks", "has_ended"),
    [
        (bounds(0.0), False),
        (bounds(0.0, 1.0), False),
        (bounds(0.0, 0.4), True),  # below the tolerance
        (bounds(0.0, 1.0, 1.4), True),
        (bounds(0.0, 1.0, 0.0, 1.4), True),  # no more than the best before
        (bounds(0.0, 1.0, spread=0.8), False),  # standard error 0.46
        (bounds(0.0, 1.0, spread=0.9), True),  # and 0.52, half of the gain
        ([np.array([0.0, np.nan]), np.array([1.0, np.nan])], False),
        ([np.array([0.0]), np.array([1.0])], False),  # one member: no error
        ([np.array([np.nan]), np.array([np.nan])], True),
    ],
)
def test_it_ends_where_the_mean_gain_is_small_or_uncertain(checks, has_ended):
    steps = AdaptiveSteps(100, patience=1, tolerance=0.5)
    assert steps.has_ended(checks) == has_ended


def test_patience_waits_for_a_later_rise():
    steps = AdaptiveSteps(100, tolerance=0.5)
    assert not steps.has_ended(bounds(0.0, 0.3))
    assert not steps.has_ended(bounds(0.0, 0.3, 0.6))
    assert steps.has_ended(bounds(0.0, 0.3, 0.4))
    assert not steps.has_ended(bounds(0.0, 0.3, 0.6, 0.7))
    assert steps.has_ended(bounds(0.0, 0.3, 0.6, 0.7, 1.0))


class Engine(test_loop.Engine):
    """Each member's bound rises by 1 nat a step, up to a number of steps."""

    def __init__(self, rising):
        super().__init__()
        self._rising, self._variable, self._done = rising, -1, 0

    def condition(self, state, ratio, keys):
        super().condition(state, ratio, keys)
        self._variable += 1
        self._done = 0

    def run(self, state, moments, keys, learning_rate, begin, end):
        self._done = end
        return super().run(state, moments, keys, learning_rate, begin, end)

    def evaluate(self, state, keys, *arguments):
        _, zeros = super().evaluate(state, keys, *arguments)
        gain = min(self._done, self._rising[max(self._variable, 0)])
        return zeros + float(gain), zeros


def finished(rising, **arguments):
    """Returns the loop, and the engine, at the end of the work."""
    engine = Engine(rising)
    loop = test_loop.make(
        engine,
        variance_ratios=(0.7,) * len(rising),
        steps=AdaptiveSteps(patience=1, **arguments),
    )
    loop.finish()
    return loop, engine


def test_steps_that_one_variable_leaves_go_to_the_next():
    loop, engine = finished([3, 100, 15, 0], budget=40, check_every=4)
    # Shares of 10, 32 / 3, 22 / 2 and all 11 that are left.
    assert engine.steps == [
        *[(0, 4), (4, 8)],
        *[(0, 4), (4, 8), (8, 10)],
        *[(0, 4), (4, 8), (8, 11)],
        *[(0, 4)],
    ]
    assert loop.state.steps.tolist() == [8, 10, 11, 4]
    assert loop.state.trace_step == [4, 8, 12, 16, 18, 22, 26, 29, 33]
    # Less the costs of the fake auxiliary variables, 1 nat each.
    gains = [3.0 - 1.0, 10.0 - 2.0, 11.0 - 3.0, 0.0 - 4.0]
    np.testing.assert_array_equal(loop.state.staircase["elbo_aux"], [gains] * 2)


@pytest.mark.parametrize("check_every", [1, 3, 50])
def test_the_budget_is_never_exceeded(check_every):
    loop, _ = finished([1000] * 3, budget=20, check_every=check_every)
    assert loop.state.steps.tolist() == [6, 7, 7]
    loop, _ = finished([1000] * 3, budget=3, check_every=check_every)
    assert loop.state.steps.tolist() == [1, 1, 1]


def test_all_checks_of_a_variable_have_the_same_draws():
    _, engine = finished([100, 100], budget=8, check_every=2)
    # A draw, and then a check before steps and after them.
    first, *found, last = engine.keys
    for _, *rest in (found[:6], found[6:]):
        assert rest[0] == rest[2] == rest[4]
    assert len({first, last, found[1], found[7]}) == 4
    assert all(rows == engine.rows[0] for rows in engine.rows)


def refine(**options):
    return linear_gaussian.refine(
        CASE.model(),
        CASE.x,
        CASE.y,
        **{
            "variance_ratios": (0.7, 0.5, 0.5),
            "learning_rate": 0.02,
            **options,
        },
    )


@pytest.mark.slow
def test_steps_that_never_end_are_those_of_a_number():
    found = refine(steps=AdaptiveSteps(30, check_every=3, patience=99))
    expected = refine(steps=10, learning_rate_decay="constant")
    np.testing.assert_array_equal(found.params, expected.params)
    for name, value in expected.history.items():
        if not name.startswith("trace_"):
            np.testing.assert_array_equal(found.history[name], value, name)


@pytest.mark.slow
def test_variables_that_gain_nothing_cost_little():
    steps = AdaptiveSteps(3000, check_every=25, tolerance=0.02)
    found = refine(steps=steps, num_members=20)
    taken = found.history["steps"]
    assert np.all(taken >= 25)
    assert taken.sum() < 1500
    assert taken.sum() == found.history["trace_step"][-1]
    long = refine(steps=1000, num_members=20)
    # As high a bound, but for the tolerance, by less than half of the steps.
    rise = long.elbo_final - long.elbo_init
    lost = long.elbo_final - found.elbo_final
    assert lost.mean() < 0.1 * rise.mean()
    axes = plotting.elbo_staircase(found.history)
    (evaluation,) = axes.containers
    ends = evaluation.lines[0].get_xdata()
    np.testing.assert_array_equal(ends, np.cumsum(taken))


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 1])
def test_interrupted_work_ends_with_the_same_numbers(tmp_path, size):
    work = linear_gaussian.Work(
        CASE.model(), CASE.x, CASE.y, variance_ratios=(0.7, 0.5),
        steps=AdaptiveSteps(60, check_every=5, tolerance=0.01), num_members=3,
    )  # fmt: skip
    engine = work.engine(size)
    counted = linear_gaussian.InterruptedEngine(engine)
    expected = work.finish(counted)
    assert expected["steps"].sum() < 60  # by a decision
    for reports in range(counted.results):
        checkpoint = resumable.Checkpoint(
            tmp_path / str(reports), "refinement", {}
        )
        with pytest.raises(linear_gaussian.Interrupted):
            work.finish(
                linear_gaussian.InterruptedEngine(engine, reports), checkpoint
            )
        again = linear_gaussian.InterruptedEngine(engine)
        linear_gaussian.assert_same(work.finish(again, checkpoint), expected)
        assert reports + again.results == counted.results


@pytest.mark.slow
def test_a_checkpoint_is_of_these_steps(tmp_path):
    steps = AdaptiveSteps(6, check_every=2)
    first = refine(steps=steps, checkpoint_dir=tmp_path)
    again = refine(steps=steps, checkpoint_dir=tmp_path)
    np.testing.assert_array_equal(again.params, first.params)
    with pytest.raises(ValueError, match="differ in steps: .*budget"):
        refine(steps=AdaptiveSteps(7, check_every=2), checkpoint_dir=tmp_path)


@pytest.mark.slow
def test_windows_of_a_stream_do_not_change_the_checks(monkeypatch):
    small_streams.shrink(monkeypatch)  # windows of four steps
    x, y = (np.asarray(value, "float32") for value in (CASE.x, CASE.y))
    options = {"steps": AdaptiveSteps(24, check_every=5), "batch_size": 4}
    found = linear_gaussian.refine(
        CASE.model(), small_streams.Batches(x, y), **options
    )
    steps = found.history["steps"]
    assert steps.sum() <= 24
    # A check ends a window early.
    assert set(range(5, steps[0], 5)) < set(found.history["trace_step"])
    assert np.all(np.isfinite(found.elbo_final))


def test_the_progress_ends_though_steps_are_left(capsys):
    refine(steps=AdaptiveSteps(500, check_every=5, tolerance=1e3), verbose=2)
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("refinement: 30 steps in ")


@pytest.mark.slow
def test_the_callback_takes_them():
    model = CASE.model()
    callback = tfr.RefinementCallback(
        CASE.x, CASE.y, num_members=2, verbose=0, seed=1,
        steps=AdaptiveSteps(10, check_every=1, tolerance=1e3),
    )  # fmt: skip
    model.fit(CASE.x, CASE.y, verbose=0, callbacks=[callback])
    assert callback.history["steps"].tolist() == [2] * 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdaptiveSteps(0), "`budget`"),
        (lambda: AdaptiveSteps(10, check_every=0), "`check_every`"),
        (lambda: AdaptiveSteps(10, patience=1.5), "`patience`"),
        (lambda: AdaptiveSteps(10, tolerance=-1.0), "`tolerance`"),
        (lambda: AdaptiveSteps(10, tolerance=np.nan), "`tolerance`"),
        (lambda: refine(steps=AdaptiveSteps(2)), "one step for each.*budget=2"),
        (
            lambda: refine(
                steps=AdaptiveSteps(10), learning_rate_decay="linear"
            ),
            "learning_rate_decay='linear'",
        ),
        (lambda: refine(steps="adaptive"), "`steps`.*'adaptive'"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
