"""Ways to compute the members together: the numbers are the same."""

from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tests.support import linear_gaussian
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine.refinement import mapping as mapping_lib
from tfp_refine.refinement import places
from tfp_refine.refinement import run as run_lib
from tfp_refine.refinement import settings as settings_lib


@pytest.fixture(scope="module")
def problem():
    return linear_gaussian.LinearGaussian()


def _convolutional():
    """Convolution, pooling and a dense layer on ten small images."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(10, 6, 6, 1)).astype("float32")
    y = rng.integers(3, size=10)
    options = {
        "num_train_examples": 10,
        "kernel_posterior": layers.MeanFieldPosterior(0.1),
    }
    inputs = keras.Input((6, 6, 1))
    hidden = layers.Conv2DFlipout(
        2, 3, activation="relu", bias_posterior=None, **options
    )(inputs)
    hidden = keras.layers.Flatten()(keras.layers.MaxPooling2D()(hidden))
    outputs = layers.DenseLocalReparameterization(3, **options)(hidden)
    model = keras.Model(inputs, outputs)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return model, x, y


def _case(name):
    problem = linear_gaussian.LinearGaussian()
    if name == "convolutional":
        return _convolutional()
    layer = {
        "local": layers.DenseLocalReparameterization,
        "flipout": layers.DenseFlipout,
    }[name]
    return problem.model(layer), problem.x, problem.y


@pytest.fixture
def engines(monkeypatch):
    """Notes the engine of each refinement."""
    made = []
    original = mapping_lib.make_engine

    def make_engine(*arguments):
        made.append(original(*arguments))
        return made[-1]

    monkeypatch.setattr(mapping_lib, "make_engine", make_engine)
    return made


def _assert_equal(ensemble, other):
    np.testing.assert_array_equal(ensemble._params, other._params)
    np.testing.assert_array_equal(ensemble.prior, other.prior)
    for name, value in other.history.items():
        np.testing.assert_array_equal(ensemble.history[name], value)


def _assert_close(ensemble, other):
    """Compares members of which only the rounding may differ."""
    np.testing.assert_allclose(
        ensemble._params, other._params, rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(ensemble.prior, other.prior, rtol=1e-5)
    for name, value in other.history.items():
        np.testing.assert_allclose(
            ensemble.history[name], value, rtol=1e-3, atol=1e-3
        )


def _assert_traced_once(engines):
    assert engines
    for engine in engines:
        assert set(engine.trace_counts().values()) == {1}


@pytest.mark.parametrize(
    ("name", "refine_deterministic"),
    [
        ("local", False),
        pytest.param("flipout", False, marks=pytest.mark.slow),
        pytest.param("convolutional", False, marks=pytest.mark.slow),
        pytest.param("convolutional", True, marks=pytest.mark.slow),
    ],
)
def test_vectorized_members_are_the_mapped_ones(
    engines, name, refine_deterministic
):
    model, x, y = _case(name)
    mapped, vectorized = (
        linear_gaussian.refine(
            model, x, y, mapping=mapping, batch_size=6, steps=7,
            refine_deterministic=refine_deterministic,
        )
        for mapping in ("mapped", "vectorized")
    )  # fmt: skip
    _assert_close(vectorized, mapped)
    # Members that do not move would be equal too.
    first, second, _ = linear_gaussian.params(mapped)
    assert layer_case.differ(first, second)
    _assert_traced_once(engines)


@pytest.mark.parametrize(
    ("mapping", "sizes"),
    [
        ("mapped", (2,)),
        pytest.param("mapped", (1, 3, 7), marks=pytest.mark.slow),
        pytest.param("vectorized", (1, 2, 7), marks=pytest.mark.slow),
    ],
)
def test_members_in_batches_are_those_computed_at_once(
    problem, engines, mapping, sizes
):
    options = {"mapping": mapping, "batch_size": 6}
    model = problem.model(layers.DenseFlipout)
    expected = linear_gaussian.refine(model, problem.x, problem.y, **options)
    assert expected.num_members == 3
    compare = _assert_equal if mapping == "mapped" else _assert_close
    for size in sizes:
        found = linear_gaussian.refine(
            model, problem.x, problem.y, members_per_batch=size, **options
        )
        compare(found, expected)
    _assert_traced_once(engines)


def test_no_more_members_are_computed_at_a_time_than_told(problem, monkeypatch):
    sizes = []
    original = functional.Program.__call__

    def call(self, state, *arguments):
        sizes.append(len(state.params))
        return original(self, state, *arguments)

    monkeypatch.setattr(functional.Program, "__call__", call)
    linear_gaussian.refine(
        problem.model(), problem.x, problem.y,
        num_members=5, members_per_batch=2, steps=1, variance_ratios=(0.5,),
    )  # fmt: skip
    assert sizes[:3] == [2, 2, 1]
    assert len(sizes) % 3 == 0
    assert sizes == [2, 2, 1] * (len(sizes) // 3)


@pytest.mark.slow
def test_a_member_that_fails_in_a_batch_fails_alone(problem):
    def loss(y_true, y_pred):
        nll = keras.ops.sum(keras.ops.square(y_true - y_pred), axis=-1)
        # The members' mean outputs lie between -0.9 and 0.7.
        return keras.ops.where(keras.ops.mean(y_pred) > 0.6, np.nan, nll)

    model = problem.model()
    weight = model.layers[-1].variational_weights[0]
    weight.assign(scale=[[1.0], [1.0]])
    reports = []
    for options in ({}, {"mapping": "vectorized"}, {"members_per_batch": 3}):
        with pytest.warns(RuntimeWarning, match="diverged") as caught:
            ensemble = linear_gaussian.refine(
                model, problem.x, problem.y, loss=loss,
                num_members=8, learning_rate=1e-5, **options,
            )  # fmt: skip
        reports.append(str(caught[0].message))
        assert 0 < ensemble.num_members < 8
    assert reports[0] == reports[1] == reports[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mapping": "parallel"}, "`mapping` must be one of .*'parallel'"),
        ({"members_per_batch": 0}, "`members_per_batch`"),
    ],
)
def test_bad_values_are_refused(problem, options, message):
    with pytest.raises(ValueError, match=message):
        linear_gaussian.refine(problem.model(), problem.x, problem.y, **options)


# Interruption.


class _Interrupt(Exception):
    pass


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"members_per_batch": 2}),
        pytest.param(
            {"members_per_batch": 1},
            {"mapping": "vectorized"},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"mapping": "vectorized"},
            {"mapping": "mapped"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_work_may_be_continued_another_way(
    problem, tmp_path, monkeypatch, before, after
):
    arguments = (problem.model(), problem.x, problem.y)
    expected = linear_gaussian.refine(*arguments)
    monkeypatch.setattr(run_lib, "_SAVE_EVERY", 0.0)
    monkeypatch.setattr(run_lib, "_SAVE_RATIO", 0.0)
    left = [4]  # of 12 reports
    original = run_lib.Run._optimize

    def optimize(self):
        if not left[0]:
            raise _Interrupt
        left[0] -= 1
        original(self)

    monkeypatch.setattr(run_lib.Run, "_optimize", optimize)
    with pytest.raises(_Interrupt):
        linear_gaussian.refine(*arguments, checkpoint_dir=tmp_path, **before)
    left[0] = -1  # endless
    resumed = linear_gaussian.refine(
        *arguments, checkpoint_dir=tmp_path, **after
    )
    assert -left[0] - 1 == 12 - 4  # nothing was done twice
    vectorized = "mapping" in before or "mapping" in after
    (_assert_close if vectorized else _assert_equal)(resumed, expected)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [6, 256])
def test_vectorized_grouped_convolutions_are_the_mapped_ones(batch_size):
    # TensorFlow's vectorized gradient of these is wrong for shared inputs.
    rng = np.random.default_rng(3)
    x = rng.normal(size=(10, 5, 6, 4)).astype("float32")
    y = rng.integers(3, size=10)
    inputs = keras.Input(x.shape[1:])
    options = {
        "num_train_examples": 10,
        "kernel_posterior": layers.MeanFieldPosterior(0.1),
    }
    hidden = layers.Conv2DFlipout(4, 3, groups=2, **options)(inputs)
    outputs = layers.DenseFlipout(3, **options)(keras.layers.Flatten()(hidden))
    model = keras.Model(inputs, outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    mapped, vectorized = (
        linear_gaussian.refine(
            model, x, y, loss=loss, mapping=mapping, batch_size=batch_size,
            steps=3, learning_rate=1e-2,
        )
        for mapping in ("mapped", "vectorized")
    )  # fmt: skip
    _assert_close(vectorized, mapped)


# The choice.


class _FakeEngine:
    """Takes some fake seconds for its first run, and some for each step."""

    def __init__(self, clock, compile_seconds, step_seconds):
        self._clock = clock
        self._seconds = (compile_seconds, step_seconds)
        self._runs = 0

    def run(self, state, moments, keys, learning_rate, begin, end):
        first, step = self._seconds
        self._clock[0] += step * (end - begin) + (0 if self._runs else first)
        self._runs += 1
        return ()


class _FakeProgress:
    state = moments = None


class _FakeSettings:
    members = (0,)
    learning_rate = 0.1


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
    monkeypatch, first, second, expected
):
    clock = [0.0]
    monkeypatch.setattr(mapping_lib.time, "perf_counter", lambda: clock[0])
    engines = [_FakeEngine(clock, *seconds) for seconds in (first, second)]
    chosen = mapping_lib.faster(*engines, _FakeProgress, _FakeSettings)
    assert chosen is engines[expected]


class _BrokenEngine:
    def run(self, *arguments):
        raise tf.errors.ResourceExhaustedError(None, None, "out of memory")


def test_a_trial_survives_an_engine_that_fails():
    works = _FakeEngine([0.0], 1.0, 0.1)
    with pytest.warns(RuntimeWarning, match="vectorized.*out of memory"):
        chosen = mapping_lib.faster(
            works, _BrokenEngine(), _FakeProgress, _FakeSettings
        )
    assert chosen is works


class _MadeEngine(NamedTuple):
    problem: object
    settings: object
    members_per_batch: int
    vectorized: bool
    place: object


class _Problem(NamedTuple):
    others: tuple = ("others",)
    data: tuple = ("x", "y")


@pytest.mark.parametrize(
    ("devices", "mapping", "expected"),
    [
        ([], "auto", False),
        ([], "mapped", False),
        ([], "vectorized", True),
        (["GPU:0"], "auto", "the faster"),
        (["GPU:0"], "mapped", False),
        (["GPU:0"], "vectorized", True),
    ],
)
def test_auto_is_mapped_on_a_processor_and_a_trial_on_an_accelerator(
    monkeypatch, devices, mapping, expected
):
    monkeypatch.setattr(mapping_lib.engine_lib, "Engine", _MadeEngine)
    monkeypatch.setattr(
        mapping_lib.tf.config, "list_logical_devices", lambda kind: devices
    )

    def faster(first, second, progress, settings):
        assert [first.vectorized, second.vectorized] == [False, True]
        assert (progress, settings) == ("progress", "settings")
        return first._replace(vectorized="the faster")

    monkeypatch.setattr(mapping_lib, "faster", faster)
    engine = mapping_lib.make_engine(
        _Problem(), "settings", settings_lib.Execution(mapping, 4), "progress"
    )
    assert engine[:4] == (_Problem(), "settings", 4, expected)
    assert isinstance(engine.place, places.Here)


def test_a_trial_does_not_change_the_result(problem, monkeypatch, engines):
    arguments = (problem.model(), problem.x, problem.y)
    expected = linear_gaussian.refine(*arguments)

    def faster(first, second, progress, settings):
        mapping_lib._trial_seconds(first, progress, settings)
        return first

    monkeypatch.setattr(
        mapping_lib.tf.config, "list_logical_devices", lambda kind: ["GPU:0"]
    )
    monkeypatch.setattr(mapping_lib, "faster", faster)
    _assert_equal(linear_gaussian.refine(*arguments), expected)
    # What the trial traced is what the work goes on with.
    _assert_traced_once(engines)
