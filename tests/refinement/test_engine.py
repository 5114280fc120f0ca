import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import linear_gaussian
from tests.support import statistics
from tfp_refine.refinement import problem as problem_lib
from tfp_refine.refinement import progress as progress_lib
from tfp_refine.refinement import settings as settings_lib


def _setup(linear, model=None, loss=None, **overrides):
    settings = settings_lib.check(
        **{
            "num_members": 3,
            "members": None,
            "variance_ratios": (0.7,),
            "steps": 10,
            "batch_size": 256,
            "learning_rate": 0.01,
            "learning_rate_decay": "constant",
            "keep_better": True,
            "refine_deterministic": False,
            "num_eval_samples": 4,
            "max_eval_examples": 2048,
            "seed": 0,
            **overrides,
        }
    )
    problem = problem_lib.Problem(
        model or linear.model(), linear.x, linear.y, loss
    )
    engine = linear_gaussian.engine(problem, settings)
    progress = progress_lib.Progress.begin(
        problem.params, problem.prior, settings
    )
    return engine, progress


def test_nothing_is_traced_twice():
    problem = linear_gaussian.LinearGaussian()
    engine, progress = _setup(problem)
    state = progress.state
    for ratio, keys in ((0.7, [1, 2, 3]), (0.4, [4, 5, 6])):
        state = engine.condition(state, ratio, keys)
        for begin, end in ((0, 1), (1, 4), (4, 10)):
            (result,) = engine.run(
                state, progress.moments, keys, 0.1 * ratio, begin, end
            )
            state = state._replace(params=result.params)
        for rows in (np.arange(20), np.arange(7)):
            engine.evaluate(state, keys, rows)
    assert engine.trace_counts() == {"condition": 1, "run": 1, "evaluate": 1}


def test_evaluation_estimates_the_exact_bound():
    problem = linear_gaussian.LinearGaussian()
    engine, progress = _setup(problem, num_members=500, num_eval_samples=12)
    log_likelihood, kl = engine.evaluate(
        progress.state, list(range(500)), np.arange(20)
    )
    exact = problem.elbo(*problem.mean_field())
    statistics.assert_mean((log_likelihood - kl).numpy(), exact, resolves=0.2)


def test_evaluation_on_some_rows_is_scaled_to_all():
    problem = linear_gaussian.LinearGaussian()
    engine, progress = _setup(problem, num_eval_samples=50)
    keys = [1, 2, 3]
    whole, _ = engine.evaluate(progress.state, keys, np.arange(20))
    parts = [
        engine.evaluate(progress.state, keys, rows)[0].numpy()
        for rows in np.split(np.arange(20), 4)
    ]
    # The noise of an example differs between the two, not its expectation.
    np.testing.assert_allclose(np.mean(parts, axis=0), whole, rtol=0.05)


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
    engine, progress = _setup(
        Problem,
        model=linear.model(),
        loss=loss,
        num_members=1,
        batch_size=batch_size,
    )
    seen.clear()  # what the checks looked at
    per_epoch = 20 // batch_size
    # In two calls, of which the second starts within an epoch.
    for begin, end in ((0, per_epoch + 1), (per_epoch + 1, 2 * per_epoch)):
        list(engine.run(progress.state, progress.moments, [3], 0.1, begin, end))
    epochs = [
        np.concatenate(seen[i * per_epoch : (i + 1) * per_epoch])
        for i in range(2)
    ]
    for epoch in epochs:
        assert len(np.unique(epoch)) == per_epoch * batch_size
    assert not np.array_equal(*epochs)


def test_steps_do_not_depend_on_how_they_are_cut():
    problem = linear_gaussian.LinearGaussian()
    engine, progress = _setup(problem, batch_size=6)
    keys = [1, 2, 3]
    (whole,) = engine.run(progress.state, progress.moments, keys, 0.1, 0, 9)
    (first,) = engine.run(progress.state, progress.moments, keys, 0.1, 0, 4)
    (rest,) = engine.run(
        progress.state._replace(params=first.params),
        first.moments, keys, 0.1, 4, 9,
    )  # fmt: skip
    np.testing.assert_array_equal(whole.params, rest.params)
    np.testing.assert_array_equal(whole.moments, rest.moments)


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
    engine, progress = _setup(problem, learning_rate_decay=decay, num_members=1)
    for begin, factor in zip((0, 5, 9), factors, strict=True):
        moments = progress.moments
        (result,) = engine.run(
            progress.state, moments, [1], 0.01, begin, begin + 1
        )
        moved = np.abs(result.params - progress.state.params)
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

    engine, progress = _setup(problem, loss=loss)
    params = progress.state.params.copy()
    params[1, 0] = 100.0 * np.sign(problem.x.mean())
    (result,) = engine.run(
        progress.state._replace(params=params),
        progress.moments, [1, 2, 3], 0.01, 0, 10,
    )  # fmt: skip
    assert result.failed_step.numpy().tolist() == [-1, 0, -1]
    assert np.all(np.isfinite(result.params.numpy()[[0, 2]]))
