import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tfp_refine import functional
from tfp_refine import layers


@pytest.fixture
def model():
    layer = layers.DenseReparameterization(2, num_train_examples=1)
    model = keras.Sequential([keras.Input((3,)), layer])
    layer_case.spread(layer)
    return model


def make(model, **arguments):
    """Returns `(predictor, forward, layout)`."""
    layout = functional.WeightLayout(model)
    forward = functional.Forward(model, layout, **arguments)
    return functional.Predictor(forward, lambda x: None), forward, layout


def test_draws_come_from_the_members_in_turn(model, rng):
    predictor, _, layout = make(model, scope=layers.mean_weights)
    params = layout.params()
    members = tf.stack([params, params + 1.0, params + 2.0])
    x = rng.normal(size=(4, 3)).astype("float32")
    draws = predictor(x, members, [], 7, 0, 10)
    assert draws.shape == (7, 4, 2)
    for sample in range(7):
        layout.assign(members[sample % 3])
        with layers.mean_weights():
            expected = model(x)
        np.testing.assert_allclose(
            draws[sample], expected, rtol=1e-5, atol=1e-5
        )


def test_a_draw_depends_on_its_number_not_on_how_many_there_are(model, rng):
    predictor, _, layout = make(model)
    members = layout.params()[None]
    x = rng.normal(size=(4, 3)).astype("float32")
    many = predictor(x, members, [], 5, 3, 10)
    np.testing.assert_array_equal(predictor(x, members, [], 2, 3, 10), many[:2])
    for sample in range(1, 5):
        assert layer_case.differ(many[sample], many[0])
    assert layer_case.differ(predictor(x, members, [], 5, 4, 10), many)


@pytest.mark.parametrize("batch_size", [1, 3, 4, 7, 100])
def test_blocks_make_up_the_whole(model, rng, batch_size):
    predictor, _, layout = make(model, scope=layers.mean_weights)
    members = layout.params()[None]
    x = rng.normal(size=(7, 3)).astype("float32")
    whole = predictor(x, members, [], 2, 0, 7)
    np.testing.assert_allclose(
        predictor(x, members, [], 2, 0, batch_size), whole, rtol=1e-6
    )


def test_blocks_have_draws_of_their_own(model):
    predictor, _, layout = make(model)
    x = np.ones([4, 3], "float32")
    draws = predictor(x, layout.params()[None], [], 3, 0, 2)
    # One draw of the weights for each block, another for the next.
    np.testing.assert_array_equal(draws[:, 0], draws[:, 1])
    np.testing.assert_array_equal(draws[:, 2], draws[:, 3])
    assert layer_case.differ(draws[:, 0], draws[:, 2])


def test_it_compiles_once_for_each_kind_of_call(model, rng):
    predictor, _, layout = make(model)
    members = layout.params()[None]
    x = rng.normal(size=(7, 3)).astype("float32")
    programs = set()
    for inputs, params, num_samples, batch_size in (
        (x, members, 2, 3),
        (x[:1], members, 4, 100),
        (x, tf.repeat(members, 2, axis=0), 1, 2),
    ):
        predictor(inputs, params, [], num_samples, None, batch_size)
        programs |= set(predictor._programs.values())
    (program,) = programs
    assert program.trace_count == 1
    predictor(x.astype("int32"), members, [], 2, None, 3)
    assert len(predictor._programs) == 2


def test_structures_with_the_same_leaves_are_told_apart():
    inputs = [keras.Input((3,)), keras.Input((3,))]
    x = keras.layers.Subtract()(inputs)
    model = keras.Model(inputs, layers.DenseFlipout(1)(x))
    predictor, _, layout = make(model, scope=layers.mean_weights)
    members = layout.params()[None]
    x = [np.ones([2, 3], "float32"), np.zeros([2, 3], "float32")]
    np.testing.assert_array_equal(
        predictor(x, members, [], 1, 0, 8),
        predictor(tuple(x), members, [], 1, 0, 8),
    )


def test_inputs_are_checked_before_anything_runs(model):
    def check(x):
        raise ValueError("not these")

    forward = functional.Forward(model)
    predictor = functional.Predictor(forward, check)
    with pytest.raises(ValueError, match="not these"):
        predictor(np.ones([2, 3]), None, forward.other_values(), 1, 0, 8)


@pytest.mark.parametrize("number", [0, -1, 2.0, True, "3", None])
@pytest.mark.parametrize("name", ["num_samples", "batch_size"])
def test_numbers_must_be_positive_integers(model, name, number):
    predictor, _, layout = make(model)
    arguments = {"num_samples": 2, "seed": 0, "batch_size": 4, name: number}
    with pytest.raises(ValueError, match=f"`{name}` must be a positive integ"):
        predictor(np.ones([2, 3]), layout.params()[None], [], **arguments)
