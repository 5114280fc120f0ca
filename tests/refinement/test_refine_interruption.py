"""Refinement that is interrupted, or whose members fail."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import linear_gaussian
from tfp_refine import losses
from tfp_refine.functional import resumable


@pytest.fixture(scope="module")
def problem():
    return linear_gaussian.LinearGaussian()


# Interruption.


@pytest.fixture(scope="module")
def work(problem):
    """A refinement of 2 auxiliary variables, with 6 reports for each."""
    return linear_gaussian.Work(
        problem.model(),
        problem.x,
        problem.y,
        variance_ratios=(0.7, 0.5),
        steps=12,
    )


@pytest.fixture(scope="module")
def engines(work):
    """Engines for members together and one by one, and their results."""
    engines = {size: work.engine(size) for size in (3, 1)}
    return {size: (e, work.finish(e)) for size, e in engines.items()}


@pytest.mark.parametrize(
    ("size", "reports"),
    [
        *((3, reports) for reports in (0, 6, 7)),
        # Some members are ahead of others.
        *((1, reports) for reports in (1, 20)),
        *(
            pytest.param(size, reports, marks=pytest.mark.slow)
            for size, reports in (
                (3, 1),
                (3, 11),
                (1, 2),
                (1, 3),
                (1, 5),
                (1, 35),
            )
        ),
    ],
)
def test_interrupted_work_ends_with_the_same_numbers(
    work, engines, tmp_path, size, reports
):
    engine, expected = engines[size]
    checkpoint = resumable.Checkpoint(tmp_path, "refinement", {})
    interrupted = linear_gaussian.InterruptedEngine(engine, reports)
    with pytest.raises(linear_gaussian.Interrupted):
        work.finish(interrupted, checkpoint)
    again = linear_gaussian.InterruptedEngine(engine)
    resumed = work.finish(again, checkpoint)
    # Nothing was done twice.
    assert reports + again.results == 12 * 3 // size
    linear_gaussian.assert_same(resumed, expected)
    linear_gaussian.assert_same(work.finish(engine, checkpoint), expected)


class _CountedLoss:
    """Counts how often it is computed, and may fail at one of these."""

    def __init__(self):
        self.count, self.fails_at = 0, None

    def _tick(self):
        self.count += 1
        if self.count == self.fails_at:
            raise RuntimeError("the machine is gone")

    def __call__(self, y_true, y_pred):
        with tf.control_dependencies([tf.py_function(self._tick, [], [])]):
            return tf.square(y_true - y_pred)[:, 0]


@pytest.mark.slow
def test_refine_continues_from_its_checkpoint(problem, tmp_path):
    loss = _CountedLoss()
    arguments = (problem.model(), problem.x, problem.y)
    expected = linear_gaussian.refine(*arguments, loss=loss)
    total, loss.count = loss.count, 0
    loss.fails_at = int(0.55 * total)  # among steps of the second variable
    folder = tmp_path / "new" / "folder"
    with pytest.raises(tf.errors.UnknownError, match="the machine is gone"):
        linear_gaussian.refine(*arguments, loss=loss, checkpoint_dir=folder)
    loss.count, loss.fails_at = 0, None
    resumed = linear_gaussian.refine(
        *arguments, loss=loss, checkpoint_dir=folder
    )
    assert 0.4 * total < loss.count < 0.6 * total
    np.testing.assert_array_equal(resumed.params, expected.params)
    linear_gaussian.assert_same(resumed.history, expected.history)


@pytest.fixture(scope="module")
def finished(problem, tmp_path_factory):
    """Folder with the checkpoint of a refinement."""
    folder = tmp_path_factory.mktemp("finished")
    linear_gaussian.refine(
        problem.model(), problem.x, problem.y, checkpoint_dir=folder
    )
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    """A copy of `finished`."""
    return shutil.copytree(finished, tmp_path / "copy")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 13}, "steps: 12 there, 13 now"),
        ({"seed": 6}, "seed: 5 there, 6 now"),
        ({"variance_ratios": (0.7,)}, "variance_ratios"),
        ({"x": 2.0}, "x: '"),
        ({"y": 2.0}, "y: '"),
    ],
)
def test_checkpoint_of_another_refinement_is_refused(
    problem, folder, change, message
):
    change = dict(change)
    factors = change.pop("x", 1.0), change.pop("y", 1.0)
    with pytest.raises(ValueError, match=f"a different refinement.*{message}"):
        linear_gaussian.refine(
            problem.model(), factors[0] * problem.x, factors[1] * problem.y,
            checkpoint_dir=folder, **change,
        )  # fmt: skip


@pytest.mark.slow
def test_checkpoint_of_another_likelihood_is_refused(problem, folder):
    arguments = (problem.model(), problem.x, problem.y)
    same, other = ({"loss": losses.GaussianNLL(scale)} for scale in (1.0, 3.0))
    linear_gaussian.refine(*arguments, checkpoint_dir=folder, **same)
    with pytest.raises(ValueError, match="differ in likelihood"):
        linear_gaussian.refine(*arguments, checkpoint_dir=folder, **other)


def test_checkpoint_of_another_posterior_is_refused(problem, folder):
    model = problem.model()
    model.layers[-1].variational_weights[0].assign(scale=[[0.1], [0.1]])
    with pytest.raises(ValueError, match="differ in .*posterior: "):
        linear_gaussian.refine(
            model, problem.x, problem.y, checkpoint_dir=folder
        )


@pytest.mark.slow
def test_checkpoint_of_another_prior_is_refused(problem, tmp_path):
    wide = linear_gaussian.LinearGaussian(prior_scale=2.0).model()
    wide.layers[-1].variational_weights[0].assign(*problem.mean_field())
    arguments = (problem.x, problem.y)
    linear_gaussian.refine(wide, *arguments, steps=1, checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match="differ in .*prior: "):
        linear_gaussian.refine(
            problem.model(), *arguments, steps=1, checkpoint_dir=tmp_path
        )


@pytest.mark.slow
def test_checkpoint_of_other_statistics_is_refused(problem, tmp_path):
    inner = problem.model()
    normalization = keras.layers.BatchNormalization()
    model = keras.Sequential([keras.Input((2,)), normalization, inner])
    model.compile(loss=inner.loss)
    arguments = (model, problem.x, problem.y)
    linear_gaussian.refine(*arguments, steps=1, checkpoint_dir=tmp_path)
    normalization.moving_mean.assign([0.0, 0.1])
    with pytest.raises(ValueError, match="differ in .*other_weights: "):
        linear_gaussian.refine(*arguments, steps=1, checkpoint_dir=tmp_path)


# Failure of a member.


def test_diverged_member_is_reported_and_left_out(problem):
    def loss(y_true, y_pred):
        nll = keras.ops.sum(keras.ops.square(y_true - y_pred), axis=-1)
        # The members' mean outputs lie between -0.9 and 0.7.
        return keras.ops.where(keras.ops.mean(y_pred) > 0.6, np.nan, nll)

    model = problem.model()
    weight = model.layers[-1].variational_weights[0]
    weight.assign(scale=[[1.0], [1.0]])
    options = {"loss": loss, "num_members": 8, "learning_rate": 1e-5}
    with pytest.warns(RuntimeWarning, match=r"[1-7] of 8 members diverged"):
        ensemble = linear_gaussian.refine(
            model, problem.x, problem.y, **options
        )
    assert 1 <= ensemble.num_members < 8
    assert np.all(np.isfinite(ensemble.elbo_final))
    assert np.all(np.isfinite(ensemble.predict(problem.x)))
    members = ensemble.history["members"]
    assert len(members) == ensemble.num_members
    assert members[-1] >= len(members)  # one that failed is before it
    alone = linear_gaussian.refine(
        model, problem.x, problem.y, **{**options, "members": members[-1:]}
    )
    np.testing.assert_array_equal(alone.params[0], ensemble.params[-1])
    for one, several in zip(alone.prior, ensemble.prior, strict=True):
        np.testing.assert_array_equal(one[0], several[-1])
    assert alone.history.keys() == ensemble.history.keys()
    for name, value in alone.history.items():
        if name not in ("steps", "trace_step"):
            assert len(ensemble.history[name]) == len(members)
            np.testing.assert_array_equal(value[0], ensemble.history[name][-1])


def test_divergence_of_all_members_is_an_error(problem):
    def loss(y_true, y_pred):
        return y_pred[:, 0] * np.nan

    with pytest.raises(FloatingPointError, match="member 0: .*step 0"):
        linear_gaussian.refine(problem.model(), problem.x, problem.y, loss=loss)


@pytest.mark.slow
def test_worse_posterior_is_undone_unless_told_otherwise(problem):
    options = {"learning_rate": 5.0, "steps": 3, "variance_ratios": (0.7,)}
    kept = linear_gaussian.refine(
        problem.model(), problem.x, problem.y, **options
    )
    assert not np.any(kept.history["kept"])
    alone = linear_gaussian.refine(
        problem.model(), problem.x, problem.y, keep_better=False, **options
    )
    assert np.all(alone.elbo_final < kept.elbo_final - 10)
    # Undone means: as conditioned, which does not depend on the rate.
    gentle = linear_gaussian.refine(
        problem.model(), problem.x, problem.y,
        **{**options, "learning_rate": 1e-9},
    )  # fmt: skip
    np.testing.assert_allclose(kept.params, gentle.params, rtol=1e-5)
