"""Ways to compute the members together: results differ by rounding only."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tests.support import linear_gaussian
from tfp_refine import layers
from tfp_refine.functional import program
from tfp_refine.functional import resumable
from tfp_refine.math import philox


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
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
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


def _assert_equal(ensemble, other):
    np.testing.assert_array_equal(ensemble.params, other.params)
    np.testing.assert_array_equal(ensemble.prior, other.prior)
    for name, value in other.history.items():
        np.testing.assert_array_equal(ensemble.history[name], value)


def _assert_close(ensemble, other):
    """Compares members of which only the rounding may differ."""
    np.testing.assert_allclose(
        ensemble.params, other.params, rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(ensemble.prior, other.prior, rtol=1e-5)
    for name, value in other.history.items():
        np.testing.assert_allclose(
            ensemble.history[name], value, rtol=1e-3, atol=1e-3
        )


@pytest.mark.parametrize(
    ("name", "refine_deterministic"),
    [
        ("local", False),
        pytest.param("flipout", False, marks=pytest.mark.slow),
        pytest.param("convolutional", False, marks=pytest.mark.slow),
        pytest.param("convolutional", True, marks=pytest.mark.slow),
    ],
)
def test_vectorized_members_are_the_mapped_ones(name, refine_deterministic):
    model, x, y = _case(name)
    mapped, vectorized = (
        linear_gaussian.refine(
            model, x, y, mapping=mapping, batch_size=6, steps=7,
            refine_deterministic=refine_deterministic,
        )
        for mapping in ("map", "vmap")
    )  # fmt: skip
    _assert_close(vectorized, mapped)
    # Members that do not move would be equal too.
    first, second, _ = mapped.params
    assert layer_case.differ(first, second)


@pytest.mark.parametrize(
    ("name", "mapping"),
    [
        ("local", "vmap"),
        pytest.param("flipout", "map", marks=pytest.mark.slow),
        pytest.param("convolutional", "map", marks=pytest.mark.slow),
        pytest.param("convolutional", "vmap", marks=pytest.mark.slow),
    ],
)
def test_xla_compiles_steps_and_bounds_as_it_does_those_of_fit(
    name, mapping, monkeypatch
):
    draw_integers = philox.uniform

    def uniform(shape, seed, dtype=tf.float32, minval=0, maxval=None):
        """Makes numbers of integers: XLA has other numbers, of the same."""
        if dtype == tf.int32:
            return draw_integers(shape, seed, dtype, minval, maxval)
        integers = draw_integers(shape, seed, tf.int32, None, None)
        return tf.cast(integers, dtype) / 2**32 + 0.5

    monkeypatch.setattr(philox, "uniform", uniform)
    monkeypatch.setattr(
        philox,
        "normal",
        lambda *args, **kwargs: tf.math.ndtri(
            0.01 + 0.98 * uniform(*args, **kwargs)
        ),
    )
    compiled, under_xla = set(), program.under_xla

    def noted(function):
        def note(*arguments):
            compiled.add(getattr(function, "__name__", "many_nll"))
            return function(*arguments)

        return under_xla(note)

    monkeypatch.setattr(program, "under_xla", noted)
    model, x, y = _case(name)
    options = {"mapping": mapping, "batch_size": 6, "steps": 7}
    expected = linear_gaussian.refine(model, x, y, **options)
    assert not compiled
    model.compile(loss=model.loss, jit_compile=True)
    found = linear_gaussian.refine(model, x, y, **options)
    assert (
        compiled
        == {
            "map": {"take_step", "block_nll"},
            "vmap": {"take_steps_at_once", "many_nll"},
        }[mapping]
    )
    _assert_close(found, expected)


@pytest.mark.parametrize(
    ("mapping", "sizes"),
    [
        ("map", (2,)),
        pytest.param("map", (1, 3, 7), marks=pytest.mark.slow),
        pytest.param("vmap", (1, 2, 7), marks=pytest.mark.slow),
    ],
)
def test_members_in_batches_are_those_computed_at_once(problem, mapping, sizes):
    options = {"mapping": mapping, "batch_size": 6}
    model = problem.model(layers.DenseFlipout)
    expected = linear_gaussian.refine(model, problem.x, problem.y, **options)
    assert expected.num_members == 3
    compare = _assert_equal if mapping == "map" else _assert_close
    for size in sizes:
        found = linear_gaussian.refine(
            model, problem.x, problem.y, members_per_batch=size, **options
        )
        compare(found, expected)


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
    for options in ({}, {"mapping": "vmap"}, {"members_per_batch": 3}):
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((3, False), (2, False)),
        pytest.param((1, False), (3, True), marks=pytest.mark.slow),
        pytest.param((3, True), (3, False), marks=pytest.mark.slow),
    ],
)
def test_work_may_be_continued_another_way(problem, tmp_path, before, after):
    # Members at a time, and whether they are vectorized.
    work = linear_gaussian.Work(problem.model(), problem.x, problem.y, steps=4)
    expected = work.finish(work.engine())
    checkpoint = resumable.Checkpoint(tmp_path, "refinement", {})
    first = linear_gaussian.InterruptedEngine(work.engine(*before), 2)
    with pytest.raises(linear_gaussian.Interrupted):
        work.finish(first, checkpoint)
    resumed = work.finish(work.engine(*after), checkpoint)
    rounding = 1e-3 if before[1] or after[1] else 0.0
    linear_gaussian.assert_same(resumed, expected, rounding)


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
        for mapping in ("map", "vmap")
    )  # fmt: skip
    _assert_close(vectorized, mapped)
