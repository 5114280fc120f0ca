import keras
import numpy as np
import pytest

from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine.math import linear_regression

X = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
Y = np.random.default_rng(1).normal(size=(40, 2)).astype("float32")


class Broken(Exception):
    pass


class Interrupted(BaseException):
    pass


@pytest.fixture
def model():
    made = keras.Sequential(
        [
            keras.Input((3,)),
            layers.DenseFlipout(4, "relu", seed=1),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5, seed=2),
            layers.DenseFlipout(4, "relu", kernel_posterior="low_rank"),
            layers.DenseMNF(2, seed=3),
        ]
    )
    made(X, training=True)  # statistics and seeds that are not the first
    return made


def fail_at(monkeypatch, error, module, name, number):
    """Lets a function fail at its call of this number, from 0."""
    calls = []
    function = getattr(module, name)

    def failing(*args, **kwargs):
        if len(calls) == number:
            raise error
        calls.append(name)
        return function(*args, **kwargs)

    monkeypatch.setattr(module, name, failing)
    return calls


def values(model):
    return [np.array(v) for v in model.variables]


def assert_unchanged(model, error, initializer):
    before = values(model)
    with pytest.raises(error):
        initializer(model, X, Y)
    for one, other in zip(before, values(model), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "number"),
    [
        (Broken, 1),
        (Interrupted, 1),
        (KeyboardInterrupt, 0),
        (KeyboardInterrupt, 1),
        (KeyboardInterrupt, 2),
    ],
)
def test_a_failing_regression_leaves_the_model_as_it_was(
    error, number, model, monkeypatch
):
    fail_at(monkeypatch, error, linear_regression, "fit", number)
    assert_unchanged(model, error, initializers.IBLM(verbose=False))


@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt])
def test_a_posterior_that_is_half_set_is_taken_back(error, model, monkeypatch):
    kind = type(model.layers[-2].variational_weights[0])
    fail_at(monkeypatch, error, kind, "initialize", 0)
    assert_unchanged(model, error, initializers.IBLM(verbose=False))


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        initializers.Heuristic,
        initializers.LSUV,
        initializers.Orthogonal,
        initializers.Uninformative,
        initializers.XavierNormal,
    ],
)
def test_the_rivals_leave_the_model_as_it_was_too(make, model, monkeypatch):
    kind = type(model.layers[-2].variational_weights[0])
    fail_at(monkeypatch, KeyboardInterrupt, kind, "initialize", 0)
    assert_unchanged(model, KeyboardInterrupt, make(verbose=False))


def test_no_scope_is_left_open(model, monkeypatch):
    fail_at(monkeypatch, KeyboardInterrupt, linear_regression, "fit", 1)
    assert_unchanged(model, KeyboardInterrupt, initializers.IBLM(verbose=False))
    seen = []
    with layers.observe_inputs(lambda layer, inputs: seen.append(layer)):
        model(X)
    assert len(seen) == 3
    assert np.any(np.asarray(model(X)) != np.asarray(model(X)))


def test_the_model_can_be_initialized_after_an_interruption(model, monkeypatch):
    with monkeypatch.context() as patch:
        fail_at(patch, KeyboardInterrupt, linear_regression, "fit", 1)
        assert_unchanged(
            model, KeyboardInterrupt, initializers.IBLM(verbose=False)
        )
    initializers.IBLM(seed=0, verbose=False)(model, X, Y)
    assert np.all(np.isfinite(model(X)))
