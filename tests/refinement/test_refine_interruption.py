"""Refinement that is interrupted, or whose members fail."""

import keras
import numpy as np
import pytest

from tests.support import linear_gaussian
from tfp_refine import losses
from tfp_refine.functional import array_file
from tfp_refine.refinement import run as run_lib


@pytest.fixture(scope="module")
def problem():
    return linear_gaussian.LinearGaussian()


@pytest.fixture(scope="module")
def ensemble(problem):
    return linear_gaussian.refine(problem.model(), problem.x, problem.y)


# Interruption.


class _Interrupt(Exception):
    pass


@pytest.mark.parametrize("reports", [1, 7, 11, 20])
def test_interrupted_work_ends_with_the_same_numbers(
    problem, ensemble, tmp_path, monkeypatch, reports
):
    monkeypatch.setattr(run_lib, "_SAVE_EVERY", 0.0)
    monkeypatch.setattr(run_lib, "_SAVE_RATIO", 0.0)
    left = [reports]
    original = run_lib.Run._optimize

    def optimize(self):
        if not left[0]:
            raise _Interrupt
        left[0] -= 1
        original(self)

    monkeypatch.setattr(run_lib.Run, "_optimize", optimize)
    options = {"checkpoint_dir": tmp_path / "new" / "folder"}
    if reports < 12:  # a run of two auxiliary variables has 12 reports
        with pytest.raises(_Interrupt):
            linear_gaussian.refine(
                problem.model(), problem.x, problem.y, **options
            )
    else:
        linear_gaussian.refine(problem.model(), problem.x, problem.y, **options)
    left[0] = -1  # endless
    resumed = linear_gaussian.refine(
        problem.model(), problem.x, problem.y, **options
    )
    assert -left[0] - 1 == max(0, 12 - reports)  # nothing was done twice
    np.testing.assert_array_equal(
        linear_gaussian.params(resumed), linear_gaussian.params(ensemble)
    )
    assert ensemble.history.keys() == resumed.history.keys()
    for name, value in ensemble.history.items():
        np.testing.assert_array_equal(resumed.history[name], value)


@pytest.mark.parametrize("advanced", [1, 2, 3, 5, 20])
def test_members_that_are_ahead_are_not_computed_again(
    problem, tmp_path, monkeypatch, advanced
):
    arguments = (problem.model(), problem.x, problem.y)
    options = {"members_per_batch": 1}
    expected = linear_gaussian.refine(*arguments, **options)
    monkeypatch.setattr(run_lib, "_SAVE_EVERY", 0.0)
    monkeypatch.setattr(run_lib, "_SAVE_RATIO", 0.0)
    left = [advanced]
    original = run_lib.Run._advance

    def advance(self, *arguments):
        if not left[0]:
            raise _Interrupt
        left[0] -= 1
        original(self, *arguments)

    monkeypatch.setattr(run_lib.Run, "_advance", advance)
    options["checkpoint_dir"] = tmp_path
    with pytest.raises(_Interrupt):
        linear_gaussian.refine(*arguments, **options)
    if advanced % 3 == 0:  # then it has nothing that old files lack
        (path,) = tmp_path.glob("*.npz")
        saved = array_file.read(path)
        assert not any(saved.pop("ahead"))
        del saved["loss"]
        array_file.write(path, saved)
    left[0] = -1  # endless
    resumed = linear_gaussian.refine(*arguments, **options)
    # Three members have 12 reports each.
    assert -left[0] - 1 == 3 * 12 - advanced
    np.testing.assert_array_equal(
        linear_gaussian.params(resumed), linear_gaussian.params(expected)
    )
    for name, value in expected.history.items():
        np.testing.assert_array_equal(resumed.history[name], value)


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
    problem, tmp_path, change, message
):
    linear_gaussian.refine(
        problem.model(), problem.x, problem.y, checkpoint_dir=tmp_path
    )
    factors = change.pop("x", 1.0), change.pop("y", 1.0)
    with pytest.raises(ValueError, match=f"another refinement.*{message}"):
        linear_gaussian.refine(
            problem.model(), factors[0] * problem.x, factors[1] * problem.y,
            checkpoint_dir=tmp_path, **change,
        )  # fmt: skip


def test_checkpoint_of_another_likelihood_is_refused(problem, tmp_path):
    for scale in (1.0, 3.0):
        arguments = (problem.model(), problem.x, problem.y)
        options = {
            "loss": losses.GaussianNLL(scale),
            "checkpoint_dir": tmp_path,
        }
        if scale == 1.0:
            linear_gaussian.refine(*arguments, **options)
        else:
            with pytest.raises(ValueError, match="differ in likelihood"):
                linear_gaussian.refine(*arguments, **options)


def test_checkpoint_of_another_posterior_is_refused(problem, tmp_path):
    model = problem.model()
    linear_gaussian.refine(model, problem.x, problem.y, checkpoint_dir=tmp_path)
    model.layers[-1].variational_weights[0].assign(scale=[[0.1], [0.1]])
    with pytest.raises(ValueError, match="differ in posterior"):
        linear_gaussian.refine(
            model, problem.x, problem.y, checkpoint_dir=tmp_path
        )


def test_checkpoint_of_another_prior_is_refused(problem, tmp_path):
    wide = linear_gaussian.LinearGaussian(prior_scale=2.0).model()
    wide.layers[-1].variational_weights[0].assign(*problem.mean_field())
    arguments = (problem.x, problem.y)
    linear_gaussian.refine(wide, *arguments, steps=1, checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match="differ in prior"):
        linear_gaussian.refine(
            problem.model(), *arguments, steps=1, checkpoint_dir=tmp_path
        )


def test_checkpoint_of_other_statistics_is_refused(problem, tmp_path):
    inner = problem.model()
    normalization = keras.layers.BatchNormalization()
    model = keras.Sequential([keras.Input((2,)), normalization, inner])
    model.compile(loss=inner.loss)
    arguments = (model, problem.x, problem.y)
    linear_gaussian.refine(*arguments, steps=1, checkpoint_dir=tmp_path)
    normalization.moving_mean.assign([0.0, 0.1])
    with pytest.raises(ValueError, match="differ in other_weights"):
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
    assert np.all(np.isfinite(ensemble.elbo_aux))
    assert np.all(np.isfinite(ensemble.predict(problem.x)))
    members = ensemble.history["members"]
    assert len(members) == ensemble.num_members
    assert members[-1] >= len(members)  # one that failed is before it
    alone = linear_gaussian.refine(
        model, problem.x, problem.y, **{**options, "members": members[-1:]}
    )
    np.testing.assert_array_equal(
        linear_gaussian.params(alone)[0], linear_gaussian.params(ensemble)[-1]
    )
    for one, several in zip(alone.prior, ensemble.prior, strict=True):
        np.testing.assert_array_equal(one[0], several[-1])
    assert alone.history.keys() == ensemble.history.keys()
    for name, value in alone.history.items():
        if name != "trace_step":
            assert len(ensemble.history[name]) == len(members)
            np.testing.assert_array_equal(value[0], ensemble.history[name][-1])


def test_divergence_of_all_members_is_an_error(problem):
    def loss(y_true, y_pred):
        return y_pred[:, 0] * np.nan

    with pytest.raises(FloatingPointError, match="member 0: .*step 0"):
        linear_gaussian.refine(problem.model(), problem.x, problem.y, loss=loss)


def test_worse_posterior_is_undone_unless_told_otherwise(problem):
    options = {"learning_rate": 5.0, "steps": 3, "variance_ratios": (0.7,)}
    kept = linear_gaussian.refine(
        problem.model(), problem.x, problem.y, **options
    )
    assert not np.any(kept.history["kept"])
    alone = linear_gaussian.refine(
        problem.model(), problem.x, problem.y, keep_better=False, **options
    )
    assert np.all(alone.elbo_aux < kept.elbo_aux - 10)
    # Undone means: as conditioned, which does not depend on the rate.
    gentle = linear_gaussian.refine(
        problem.model(), problem.x, problem.y,
        **{**options, "learning_rate": 1e-9},
    )  # fmt: skip
    np.testing.assert_allclose(
        linear_gaussian.params(kept), linear_gaussian.params(gentle), rtol=1e-5
    )
