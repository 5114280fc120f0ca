"""Refinement and bounds on data that memory does not hold."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr
from tests.support import linear_gaussian
from tests.support import small_streams
from tfp_refine.functional import executor
from tfp_refine.functional import streams
from tfp_refine.refinement import loop as loop_lib
from tfp_refine.refinement import objective as objective_lib


@pytest.fixture(scope="module")
def problem():
    return linear_gaussian.LinearGaussian()


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Blocks of 3 examples of 12 bytes, windows of 16: two steps."""
    small_streams.shrink(monkeypatch)


def batches(problem, **options):
    x, y = (np.asarray(v, "float32") for v in (problem.x, problem.y))
    return small_streams.Batches(x, y, **options)


def refine(problem, *data, **options):
    return linear_gaussian.refine(
        problem.model(), *data, **{"batch_size": 8, **options}
    )


@pytest.mark.parametrize(
    "mapping", ["map", pytest.param("vmap", marks=pytest.mark.slow)]
)
def test_a_stream_is_refined(problem, mapping):
    given = {
        "learning_rate": 0.04,
        "learning_rate_decay": "constant",
        "steps": 20,
        "mapping": mapping,
    }
    stream = refine(problem, batches(problem), **given)
    arrays = refine(problem, problem.x, problem.y, **given)
    # Bounds are of the same examples and draws; steps see others.
    np.testing.assert_allclose(stream.elbo_init, arrays.elbo_init, rtol=1e-5)
    np.testing.assert_allclose(
        stream.history["elbo_conditioned"][:, 0],
        arrays.history["elbo_conditioned"][:, 0],
        rtol=1e-5,
    )
    assert np.all(stream.elbo_final > stream.elbo_init)
    np.testing.assert_allclose(
        stream.elbo_final.mean(), arrays.elbo_final.mean(), atol=0.3
    )
    assert stream.history["trace_step"][-1] == 40


@pytest.mark.slow
def test_bounds_are_of_some_examples_of_a_stream(problem):
    given = {"max_eval_examples": 7, "steps": 1, "variance_ratios": (0.5,)}
    stream, arrays = (
        refine(problem, *data, **given)
        for data in ((batches(problem),), (problem.x, problem.y))
    )
    np.testing.assert_allclose(stream.elbo_init, arrays.elbo_init, rtol=1e-5)
    every = refine(
        problem, batches(problem), **given | {"max_eval_examples": 20}
    )
    assert not np.allclose(stream.elbo_init, every.elbo_init, rtol=1e-5)


@pytest.mark.slow
def test_a_seed_fixes_the_result(problem):
    first, again, other = (
        refine(problem, batches(problem, size=size), seed=seed)
        for size, seed in ((3, 1), (5, 1), (3, 2))
    )
    # Whatever batches the examples come in.
    np.testing.assert_array_equal(first.params, again.params)
    linear_gaussian.assert_same(first.history, again.history)
    assert not np.array_equal(first.params, other.params)


@pytest.mark.slow
def test_members_may_be_computed_elsewhere(problem):
    whole = refine(problem, batches(problem), members_per_batch=2)
    part = refine(problem, batches(problem), members=[2])
    np.testing.assert_array_equal(part.params[0], whole.params[2])


@pytest.mark.slow
@pytest.mark.parametrize(
    "progress",
    [
        pytest.param(0.3, marks=pytest.mark.slow),
        0.5,
        pytest.param(0.7, marks=pytest.mark.slow),
        pytest.param(0.95, marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_refinement_ends_with_the_same_numbers(
    problem, tmp_path, monkeypatch, progress
):
    monkeypatch.setattr(loop_lib.Loop, "save_every", 0.0)
    monkeypatch.setattr(loop_lib.Loop, "save_ratio", 0.0)
    # Windows of 3 steps, reports after 2: saved within windows, too.
    given = {"steps": 13, "members_per_batch": 1, "batch_size": 5}
    data = batches(problem)
    expected = refine(problem, data, **given)
    data.fails_at = data.count + int(progress * data.count)
    with pytest.raises(RuntimeError, match="the disk is gone"):
        refine(problem, data, checkpoint_dir=tmp_path, **given)
    assert list(tmp_path.glob("*.ckpt"))
    data.fails_at = None
    resumed = refine(problem, data, checkpoint_dir=tmp_path, **given)
    np.testing.assert_array_equal(resumed.params, expected.params)
    linear_gaussian.assert_same(resumed.history, expected.history)


@pytest.mark.slow
def test_a_checkpoint_needs_the_same_examples_in_order(problem, tmp_path):
    def shuffled(number):
        return np.random.default_rng(number).permutation(len(problem.x))

    refine(problem, batches(problem, rows=shuffled))
    with pytest.raises(ValueError, match="same order in each pass"):
        refine(
            problem, batches(problem, rows=shuffled), checkpoint_dir=tmp_path
        )
    refine(problem, batches(problem), checkpoint_dir=tmp_path)
    backwards = np.arange(len(problem.x))[::-1]
    with pytest.raises(ValueError, match="differ in .*data: .20 examples"):
        refine(
            problem,
            batches(problem, rows=lambda _: backwards),
            checkpoint_dir=tmp_path,
        )


def test_workers_of_a_cluster_need_data_in_memory(problem, monkeypatch):
    monkeypatch.setattr(executor, "check_reachable", lambda model: None)
    settings = types.SimpleNamespace(
        num_members=1,
        coordinator=object(),
        loss=None,
        refine_deterministic=False,
    )
    with pytest.raises(ValueError, match="`coordinator` each worker holds"):
        objective_lib.of_settings(
            problem.model(), {"x": batches(problem), "y": None}, settings
        )


@pytest.mark.slow
def test_the_callback_refines_a_stream(problem):
    x, y = (np.asarray(v, "float32") for v in (problem.x, problem.y))
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    given = {"num_members": 2, "steps": 3, "batch_size": 8, "seed": 1}
    callback = tfr.RefinementCallback(dataset, verbose=0, **given)
    model = problem.model()
    model.fit(dataset, shuffle=False, verbose=0, callbacks=[callback])
    direct = tfr.refine(model, dataset, verbose=0, **given)
    np.testing.assert_array_equal(callback.ensemble.params, direct.params)


def test_bad_targets_of_any_block_are_refused_before_training():
    model = tfr.models.MLP((2,), 3, hidden=(), num_train_examples=20)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    x, y = np.zeros((20, 2)), np.arange(20) % 3
    y[-1] = 3
    data = small_streams.Batches(x, y)
    callback = tfr.RefinementCallback(data)
    for function in (
        lambda: tfr.refine(model, data, verbose=0),
        lambda: tfr.elbo(model, data),
        lambda: model.fit(x, y % 3, verbose=0, callbacks=[callback]),
    ):
        with pytest.raises(ValueError, match=r"must be in \[0, 3\).* to 3"):
            function()


# The bound.


@pytest.fixture
def _double():
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize("weighted", [False, True])
def test_the_bound_is_that_of_arrays(rng, monkeypatch, weighted):
    monkeypatch.setattr("tfp_refine.refinement.bound._BLOCK", 6)
    layer = tfr.layers.DenseReparameterization(1, num_train_examples=50)
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile("sgd", tfr.losses.GaussianNLL(0.5))
    arrays = [rng.normal(size=(50, 3)), rng.normal(size=(50, 1))]
    if weighted:
        arrays.append(rng.integers(0, 3, 50))
    stream = small_streams.Batches(*arrays, size=7)
    x, y, *weight = arrays
    weight = {"sample_weight": weight[0]} if weighted else {}
    expected = tfr.elbo(model, x, y, num_samples=3, seed=1, **weight)
    found = tfr.elbo(model, stream, num_samples=3, seed=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    other = tfr.elbo(model, stream, num_samples=3, seed=2)
    assert abs(other / expected - 1.0) > 1e-6


def test_num_train_examples_must_be_those_of_the_stream(problem):
    model = problem.model()
    tfr.layers.set_num_train_examples(model, 7)
    with pytest.raises(ValueError, match="num_train_examples=7"):
        tfr.refine(model, batches(problem), verbose=0)


def test_a_dataset_that_ends_early_later_on_is_refused(problem):
    def shorter(number):
        return np.arange(len(problem.x) - (number > 3))

    with pytest.raises(ValueError, match="and later"):
        refine(problem, batches(problem, rows=shorter), steps=50)


def test_streams_are_seen_here(problem):
    objective = objective_lib.of_settings(
        problem.model(),
        {"x": batches(problem), "y": None},
        types.SimpleNamespace(
            num_members=1,
            coordinator=None,
            loss=None,
            refine_deterministic=False,
        ),
    )
    assert isinstance(objective.data, streams.Stream)
    assert objective.num_examples == len(problem.x)
