import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import linear_gaussian
from tests.support import statistics
from tfp_refine.functional import executor
from tfp_refine.math import auxiliary
from tfp_refine.math import gaussian
from tfp_refine.refinement import bound
from tfp_refine.refinement import engine as engine_lib
from tfp_refine.refinement import member


def _setup(linear, model=None, loss=None, **changes):
    work = linear_gaussian.Work(
        model or linear.model(), linear.x, linear.y, loss, **changes
    )
    return work.engine(), work.state()


@pytest.mark.parametrize(
    ("size", "vectorized", "refine_deterministic"),
    [
        (3, False, False),
        (2, False, True),
        pytest.param(2, True, False, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_traced_twice(size, vectorized, refine_deterministic):
    linear = linear_gaussian.LinearGaussian()
    work = linear_gaussian.Work(
        linear.model(),
        linear.x,
        linear.y,
        refine_deterministic=refine_deterministic,
    )
    engine, state = work.engine(size, vectorized), work.state()
    stacked = state.members
    for ratio, keys in ((0.7, [1, 2, 3]), (0.4, [4, 5, 6])):
        engine.condition(stacked, ratio, keys)
        for begin, end in ((0, 1), (1, 4), (4, 10)):
            results = engine.run(
                stacked, state.moments, keys, 0.1 * ratio, begin, end
            )
            params = np.concatenate([r.state.params for r in results])
            stacked = stacked._replace(params=params)
        for rows in (np.arange(20), np.arange(7)):
            engine.evaluate(stacked, keys, rows, len(rows))
    assert [p.trace_count for p in engine.programs.values()] == [1, 1, 1]


def test_no_more_members_are_computed_at_a_time_than_told():
    sizes = []

    class Executor(executor.LocalExecutor):
        def compute(self, program, common, batches):
            sizes.extend(len(keys) for *_, keys in batches)
            return super().compute(program, common, batches)

    linear = linear_gaussian.LinearGaussian()
    work = linear_gaussian.Work(
        linear.model(), linear.x, linear.y, num_members=5, steps=1
    )
    work.finish(work.engine(size=2, where=Executor(work.constants)))
    # Bounds at the start; steps; bounds before and after; at the end.
    assert sizes == [2, 2, 1] * 5


def _condition(work, ratio=0.6):
    """Returns the members after an auxiliary variable, and its costs."""
    state = work.state()
    work.engine().condition(state.members, ratio, [1, 2, 3])
    return state.members


def test_weights_are_conditioned_in_chunks(monkeypatch):
    linear = linear_gaussian.LinearGaussian()
    work = linear_gaussian.Work(linear.model(), linear.x, linear.y)
    whole = _condition(work)
    monkeypatch.setattr(engine_lib, "_CHUNK", 1)
    parts = _condition(work)
    # The first weight has the same draw, the second one of its own.
    for one, other in zip(parts[:3], whole[:3], strict=True):
        np.testing.assert_array_equal(one[..., 0], other[..., 0])
    drawn = parts.prior_loc - work.state().members.prior_loc
    assert len(np.unique(drawn)) == 6
    np.testing.assert_allclose(parts.prior_scale, whole.prior_scale, rtol=1e-6)
    np.testing.assert_allclose(parts.cost, _cost(work, parts), rtol=1e-5)
    np.testing.assert_allclose(whole.cost, _cost(work, whole), rtol=1e-5)


def _cost(work, after, ratio=0.6):
    """Computes `log q(a) - log p(a)` of the draws, nats, `[M]`."""
    before = work.state().members
    q = member.posterior(before.params, before.prior_loc)
    prior = gaussian.Gaussian(before.prior_loc, before.prior_scale)
    drawn = after.prior_loc - before.prior_loc
    return np.sum(auxiliary.log_density_ratio(q, prior, ratio, drawn), axis=1)


@pytest.mark.parametrize(
    "refine_deterministic", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_kl_of_chunks_is_that_of_all_weights(monkeypatch, refine_deterministic):
    linear = linear_gaussian.LinearGaussian()
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(2), linear.model()]
    )
    model.compile(loss=linear.model().loss)
    work = linear_gaussian.Work(
        model, linear.x, linear.y, refine_deterministic=refine_deterministic
    )
    kl = []
    for chunk in (1, 2, 3):
        monkeypatch.setattr(bound, "_CHUNK", chunk)
        found = work.engine().evaluate(
            work.state().members, [1, 2, 3], np.arange(3), 2
        )
        kl.append(found[1])
    np.testing.assert_allclose(kl[0], kl[1], rtol=1e-12)
    np.testing.assert_allclose(kl[2], kl[1], rtol=1e-12)
    assert kl[0][0] > 0.1


@pytest.mark.slow
def test_evaluation_estimates_the_exact_bound():
    problem = linear_gaussian.LinearGaussian()
    engine, state = _setup(problem, num_members=500)
    log_likelihood, kl = engine.evaluate(
        state.members, list(range(500)), np.arange(20), 12
    )
    exact = problem.elbo(*problem.mean_field())
    statistics.assert_mean((log_likelihood - kl).numpy(), exact, resolves=0.2)


def test_evaluation_on_some_rows_is_scaled_to_all():
    problem = linear_gaussian.LinearGaussian()
    engine, state = _setup(problem)
    keys = [1, 2, 3]
    whole, _ = engine.evaluate(state.members, keys, np.arange(20), 50)
    parts = [
        engine.evaluate(state.members, keys, rows, 50)[0].numpy()
        for rows in np.split(np.arange(20), 4)
    ]
    # The noise of an example differs between the two, not its expectation.
    np.testing.assert_allclose(np.mean(parts, axis=0), whole, rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [4, 6])
def test_an_epoch_visits_each_example_at_most_once(batch_size):
    seen = []

    class Problem:
        x = np.arange(20, dtype=np.float32)[:, np.newaxis] * [[1.0, 0.0]]
        y = np.arange(20, dtype=np.float32)[:, np.newaxis]

    def loss(y_true, y_pred):
        tf.py_function(lambda v: seen.append(v.numpy().ravel()), [y_true], [])
        return keras.ops.sum(keras.ops.square(y_pred), axis=-1)

    linear = linear_gaussian.LinearGaussian()
    engine, state = _setup(
        Problem,
        model=linear.model(),
        loss=loss,
        num_members=1,
        batch_size=batch_size,
    )
    seen.clear()  # the calls of the checks
    per_epoch = 20 // batch_size
    # In two calls, of which the second starts within an epoch.
    for begin, end in ((0, per_epoch + 1), (per_epoch + 1, 2 * per_epoch)):
        list(engine.run(state.members, state.moments, [3], 0.1, begin, end))
    epochs = [
        np.concatenate(seen[i * per_epoch : (i + 1) * per_epoch])
        for i in range(2)
    ]
    for epoch in epochs:
        assert len(np.unique(epoch)) == per_epoch * batch_size
    assert not np.array_equal(*epochs)


def test_steps_do_not_depend_on_how_they_are_cut():
    problem = linear_gaussian.LinearGaussian()
    engine, state = _setup(problem, batch_size=6)
    keys = [1, 2, 3]
    (whole,) = engine.run(state.members, state.moments, keys, 0.1, 0, 9)
    (first,) = engine.run(state.members, state.moments, keys, 0.1, 0, 4)
    (rest,) = engine.run(
        state.members._replace(params=first.state.params),
        first.state.slots, keys, 0.1, 4, 9,
    )  # fmt: skip
    np.testing.assert_array_equal(whole.state.params, rest.state.params)
    np.testing.assert_array_equal(whole.state.slots, rest.state.slots)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decay", "factors"),
    [
        ("constant", [1.0, 1.0, 1.0]),
        ("linear", [1.0, 0.5, 0.1]),
        ("cosine", [1.0, 0.5, 0.0244717]),
    ],
)
def test_learning_rate_decays_to_zero_over_the_steps(decay, factors):
    # Adam's first step is its learning rate, whatever the gradient.
    problem = linear_gaussian.LinearGaussian()
    engine, state = _setup(problem, learning_rate_decay=decay, num_members=1)
    for begin, factor in zip((0, 5, 9), factors, strict=True):
        moments = state.moments
        (result,) = engine.run(
            state.members, moments, [1], 0.01, begin, begin + 1
        )
        moved = np.abs(result.state.params - state.members.params)
        # Bias correction after `begin` steps that left zero moments.
        count = begin + 1
        correction = (
            0.1 / np.sqrt(0.001) * np.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        )
        np.testing.assert_allclose(moved, 0.01 * factor * correction, rtol=2e-3)


def test_a_member_whose_loss_is_nan_stops_alone():
    problem = linear_gaussian.LinearGaussian()

    def loss(y_true, y_pred):
        mean = keras.ops.mean(y_pred)
        return keras.ops.where(mean > 5.0, np.nan, keras.ops.square(y_pred))

    engine, state = _setup(problem, loss=loss)
    params = state.members.params.copy()
    params[1, 0] = 100.0 * np.sign(problem.x.mean())
    (result,) = engine.run(
        state.members._replace(params=params),
        state.moments, [1, 2, 3], 0.01, 0, 10,
    )  # fmt: skip
    assert result.failed_step.numpy().tolist() == [-1, 0, -1]
    assert np.all(np.isfinite(result.state.params.numpy()[[0, 2]]))


# The choice of an engine.


class _FakeEngine:
    """Takes some fake seconds for its first run, and some for each step."""

    def __init__(self, clock, compile_seconds, step_seconds):
        self._clock = clock
        self._seconds = (compile_seconds, step_seconds)
        self._runs = 0

    def part(self, auxiliary, begin, end):
        return end

    def run(self, state, moments, keys, learning_rate, begin, end):
        first, step = self._seconds
        self._clock[0] += step * (end - begin) + (0 if self._runs else first)
        self._runs += 1
        yield ()
        raise AssertionError("Members that are tried together may not fit.")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # Seconds to compile, and for each step.
        ((1.0, 0.2), (1.0, 0.1), 1),
        ((1.0, 0.1), (1.0, 0.2), 0),
        ((9.0, 0.1), (1.0, 0.2), 0),
        ((1.0, 0.2), (9.0, 0.1), 1),
    ],
)
def test_a_trial_finds_the_engine_with_the_faster_steps(
    work, monkeypatch, first, second, expected
):
    clock = [0.0]
    monkeypatch.setattr(engine_lib.time, "perf_counter", lambda: clock[0])
    engines = [_FakeEngine(clock, *seconds) for seconds in (first, second)]
    chosen = engine_lib.faster(*engines, work.settings, work.state())
    assert chosen is engines[expected]


class _BrokenEngine(_FakeEngine):
    def run(self, *arguments):
        raise tf.errors.ResourceExhaustedError(None, None, "out of memory")


def test_a_trial_survives_an_engine_that_fails(work):
    works = _FakeEngine([0.0], 1.0, 0.1)
    with pytest.warns(RuntimeWarning, match="vectorized.*out of memory"):
        chosen = engine_lib.faster(
            works, _BrokenEngine([0.0], 1.0, 0.1), work.settings, work.state()
        )
    assert chosen is works


@pytest.fixture
def work():
    linear = linear_gaussian.LinearGaussian()
    return linear_gaussian.Work(linear.model(), linear.x, linear.y)


def _made(work, mapping):
    settings = dataclasses.replace(
        work.settings, mapping=mapping, members_per_batch=2
    )
    return engine_lib.make_engine(work.objective, settings, work.state())


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("mapping", ["auto", "map", "vmap"])
def test_auto_is_mapped_on_a_processor_and_a_trial_on_an_accelerator(
    work, monkeypatch, mapping, accelerated
):
    devices = ["GPU:0"] if accelerated else []
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda _: devices)
    monkeypatch.setattr(engine_lib, "faster", lambda *engines: engines)
    engine = _made(work, mapping)
    if mapping == "auto" and accelerated:
        mapped, vectorized, settings, state = engine
        assert (mapped.vectorized, vectorized.vectorized) == (False, True)
        assert settings.depends_on() == work.settings.depends_on()
        np.testing.assert_array_equal(
            state.members.params, work.state().members.params
        )
        engine = mapped
    else:
        assert engine.vectorized == (mapping == "vmap")
    assert engine.members_per_batch == 2
    assert engine.num_workers == 1


@pytest.mark.slow
def test_a_trial_does_not_change_the_result(work):
    state = work.state()
    tried = work.engine()
    engine_lib.faster(tried, _FakeEngine([0.0], 1.0, 0.1), work.settings, state)
    found, expected = work.finish(tried), work.finish(work.engine())
    linear_gaussian.assert_same(found, expected)
    # The work goes on with the traces of the trial.
    assert {p.trace_count for p in tried.programs.values()} == {1}
