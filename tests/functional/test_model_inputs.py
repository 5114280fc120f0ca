import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import layers
from tfp_refine.functional import model_inputs


def _two(by_name, names=("b", "a")):
    """A model of two inputs, named `b [3]` and `a [1]`."""
    first, second = (
        keras.Input(shape, name=name)
        for shape, name in zip(((3,), (1,)), names, strict=True)
    )
    both = keras.layers.Concatenate()([first, second])
    inputs = [first, second]
    if by_name:
        inputs = dict(zip(names, inputs, strict=True))
    return keras.Model(inputs, layers.DenseFlipout(1)(both), name="two")


def _inputs(n=5):
    return {"a": tf.range(0.0, n)[:, tf.newaxis], "b": tf.ones([n, 3])}


@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("is_vector", [True, False])
def test_inputs_by_name_come_in_any_order(by_name, order, is_vector):
    model, x = _two(by_name), _inputs()
    expected = model(x)
    given = {name: x[name] for name in order}
    if is_vector:
        given["a"] = given["a"][:, 0]
    found = model_inputs.fit(model, given)
    keras.tree.assert_same_structure(found, model.input)
    for one, other in zip(keras.tree.flatten(found), model.inputs, strict=True):
        assert tuple(one.shape[1:]) == tuple(other.shape[1:])
    assert model(found).shape == expected.shape
    found = found if by_name else dict(zip(("b", "a"), found, strict=True))
    for name, value in x.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"a": 0, "c": 0}, r"inputs \['(a|b)', '(a|b)'\].*unknown.*without"),
        ({"a": 0}, r"without \['b'\]"),
        ({"a": 0, "b": 0, "c": 0}, r"of which \['c'\] are unknown"),
    ],
)
@pytest.mark.parametrize("by_name", [True, False])
def test_wrong_names_are_told(x, message, by_name):
    x = dict.fromkeys(x, tf.ones([5, 1]))
    with pytest.raises(ValueError, match=f"The model 'two' expects.*{message}"):
        model_inputs.fit(_two(by_name), x)


def test_a_list_does_not_say_which_name_is_meant():
    with pytest.raises(ValueError, match=r"by name, a dict of \['a', 'b'\]"):
        model_inputs.fit(_two(True), [tf.ones([5, 3]), tf.ones([5, 1])])


def test_one_input_may_be_wrapped():
    x = tf.ones([4, 2])
    inputs = keras.Input((2,), name="only")
    for struct in (inputs, [inputs], {"only": inputs}):
        model = keras.Model(struct, layers.DenseFlipout(1)(inputs))
        for given in (x, [x], {"only": x}):
            found = model_inputs.fit(model, given)
            assert keras.tree.flatten(found)[0] is x
            assert isinstance(found, dict) == isinstance(struct, dict)
            model(found)
    sequential = keras.Sequential([inputs, layers.DenseFlipout(1)])
    assert model_inputs.fit(sequential, [x]) is x
    assert model_inputs.fit(sequential, {"only": x}) is x


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        [tf.ones([5, 3])],
        [tf.ones([5, 4]), tf.ones([5, 9, 2])],
        [tf.ones([5, 3]), tf.ones([5, 2])],
        [tf.ones([5, 9, 2]), tf.ones([5, 3])],
    ],
)
def test_a_model_and_its_inputs_must_fit(wrong):
    two = [keras.Input((3,)), keras.Input((None, 2))]
    model = keras.Model(two, layers.DenseFlipout(1)(two[0]))
    model_inputs.fit(model, [tf.ones([5, 3]), tf.ones([5, 9, 2])])
    with pytest.raises(ValueError, match=r"inputs of shape \[\(None, 3\)"):
        model_inputs.fit(model, wrong)


def test_the_last_axis_of_one_may_be_missing_or_left():
    model = keras.Sequential([keras.Input((1,)), layers.DenseFlipout(1)])
    assert model_inputs.fit(model, tf.ones([5])).shape == (5, 1)
    sequence = keras.Sequential([keras.Input((4,)), layers.DenseFlipout(1)])
    assert model_inputs.fit(sequence, tf.ones([5, 4, 1])).shape == (5, 4)


def _of_dtype(dtype):
    inputs = keras.Input((2,), dtype=dtype, name="in")
    outputs = keras.layers.Lambda(lambda v: v)(inputs)
    return keras.Model(inputs, outputs, name="m")


@pytest.mark.parametrize(
    ("dtype", "x", "message"),
    [
        ("string", tf.ones([3, 2]), "expects text as its input 'in'.*float32"),
        (
            "float32",
            tf.fill([3, 2], "a"),
            "expects numbers as its.*string.*Text",
        ),
        ("int32", tf.fill([3, 2], 0.5), "integers.* 6 of 6 .*such as 0.5"),
        ("float16", tf.fill([3, 2], 1e6), "finite in float16.*6 of 6"),
    ],
)
def test_dtypes_that_would_lose_something_are_refused(dtype, x, message):
    with pytest.raises(ValueError, match=message):
        model_inputs.fit(_of_dtype(dtype), x)


@pytest.mark.parametrize(
    ("dtype", "x"),
    [
        ("string", tf.fill([3, 2], "a")),
        ("float32", tf.ones([3, 2], "uint8")),
        ("int32", tf.ones([3, 2])),
        ("float16", tf.ones([3, 2])),
    ],
)
def test_other_dtypes_pass(dtype, x):
    assert model_inputs.fit(_of_dtype(dtype), x) is x


class Subclassed(keras.Model):
    """A model that says nothing of its inputs."""

    def __init__(self, *inner):
        super().__init__(name="own")
        self.inner = list(inner)

    def call(self, inputs):
        for layer in self.inner:
            inputs = layer(inputs)
        return inputs


class OwnLayer(keras.layers.Layer):
    """A layer that may read text."""


def test_a_model_that_says_nothing_of_its_inputs_takes_any():
    x = {"any": tf.ones([5, 3])}
    assert model_inputs.fit(Subclassed(), x) is x


def test_text_needs_a_layer_that_reads_it():
    text = tf.constant(["a"])
    with pytest.raises(ValueError, match="numbers for the model 'own'.*text"):
        model_inputs.fit(Subclassed(layers.DenseFlipout(1)), text)
    for inner in (keras.layers.TextVectorization(), OwnLayer()):
        assert model_inputs.fit(Subclassed(inner), text) is text


@pytest.mark.parametrize("is_list", [False, True])
def test_the_dtype_that_layers_compute_in_decides_the_range(is_list):
    policy = keras.DTypePolicy("mixed_float16")
    inputs = keras.Input((2,))
    both = [inputs, inputs] if is_list else inputs
    layer = keras.layers.Add if is_list else keras.layers.ReLU
    half = keras.Model(inputs, layer(dtype=policy)(both))
    with pytest.raises(ValueError, match="finite in float16.*6 of 6"):
        model_inputs.fit(half, tf.fill([3, 2], 1e6))
    full = keras.Model(inputs, layer(dtype="float32")(both))
    model_inputs.fit(full, tf.fill([3, 2], 1e6))
    rescaled = keras.layers.Rescaling(1e-6, dtype="float32")(inputs)
    model_inputs.fit(
        keras.Model(inputs, keras.layers.ReLU(dtype=policy)(rescaled)),
        tf.fill([3, 2], 1e6),
    )
