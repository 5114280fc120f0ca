"""Constructors are explicit, and those of Keras with more arguments."""

import inspect
import re
import typing

import keras
import numpy as np
import pytest

from tfp_refine import _validation
from tfp_refine import layers

# Bases, which users derive from.
_BASES = (layers.RecurrentLayer, layers.SampledLayer, layers.VariationalLayer)
_LAYERS = [
    entry
    for entry in map(layers.__dict__.get, layers.__all__)
    if inspect.isclass(entry) and issubclass(entry, keras.layers.Layer)
]
_PUBLIC = [layer for layer in _LAYERS if layer not in _BASES]
# Layers that stand for one of Keras, whose arguments they take.
_TWINS = [
    layer
    for layer in _PUBLIC
    if issubclass(layer, (layers.VariationalLayer, layers.SampledLayer))
    or layer.__name__.startswith(("MultiHead", "GroupQuery", "Separable"))
]
_FAMILIES = (
    layers.FixedVariancePosterior,
    layers.KTiedPosterior,
    layers.LowRankPosterior,
    layers.MeanFieldPosterior,
)
_FIRST = {
    "equation": "ab,bc->ac",
    "output_shape": 3,
    "num_heads": 2,
    "key_dim": 3,
    "head_dim": 3,
    "num_query_heads": 4,
    "num_key_value_heads": 2,
    "units": 3,
    "filters": 4,
    "kernel_size": 2,
    "input_dim": 5,
    "output_dim": 3,
    "rate": 0.5,
    "layer": keras.layers.Dense(2),
}
# Arguments of Keras that only a deterministic kernel has, or that set it.
_NOT_OURS = (
    "lora_rank",
    "lora_alpha",
    "gptq_unpacked_column_size",
    "quantization_config",
    "weights",
)

every_class = pytest.mark.parametrize("make", [*_LAYERS, *_FAMILIES])
every_layer = pytest.mark.parametrize("make", _PUBLIC)
every_twin = pytest.mark.parametrize("make", _TWINS)


def parameters(make):
    return _validation.parameters(make)


def required(make):
    """Returns values of the arguments that a class needs."""
    return {
        name: _FIRST[name]
        for name, parameter in parameters(make).items()
        if parameter.default is parameter.empty
    }


def positional(make):
    """Returns the names of positional arguments, those of Keras aside."""
    return [
        name
        for name, parameter in parameters(make).items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        and name not in _NOT_OURS
    ]


@every_class
def test_no_argument_is_hidden(make):
    hidden = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for name, parameter in parameters(make).items():
        assert parameter.kind not in hidden, name


@every_class
def test_every_argument_has_a_type(make):
    annotated = set(typing.get_type_hints(make.__init__)) - {"return"}
    assert annotated == set(parameters(make))


@every_layer
def test_every_argument_is_in_the_config(make):
    assert set(parameters(make)) <= set(make(**required(make)).get_config())


@every_class
def test_every_argument_is_documented_in_its_order(make):
    documentation = inspect.getdoc(make)
    if not parameters(make):
        return
    section = documentation.split("Args:\n")[1].split("\n\n")[0]
    documented = re.findall(r"^    (\w+):", section, flags=re.MULTILINE)
    assert documented == list(parameters(make))
    assert not re.search(r"\{\w*\}", documentation)
    lines = [line for line in make.__doc__.splitlines() if "//" not in line]
    assert max(map(len, lines)) <= 80


@every_twin
def test_arguments_of_keras_keep_their_positions(make):
    expected = positional(make.keras_layer)
    if make is layers.Conv3DTransposeFlipout:
        # Keras has another order than for one and two axes.
        assert set(positional(make)) == set(expected)
    else:
        assert positional(make) == expected
    # With their defaults, but for priors in place of penalties.
    for name in expected:
        if name.endswith("_regularizer") and "activity" not in name:
            assert parameters(make)[name].default == "gaussian_kl"
            continue
        ours, theirs = (
            parameters(kind)[name].default for kind in (make, make.keras_layer)
        )
        if isinstance(theirs, tuple):  # (1, 1)
            (theirs,) = set(theirs)
        assert ours == theirs, name


def test_a_dense_layer_is_made_with_the_arguments_of_keras():
    arguments = (3, "relu", True, keras.initializers.HeNormal(seed=1), "ones")
    ours = layers.DenseFlipout(*arguments, num_train_examples=1)
    theirs = keras.layers.Dense(*arguments)
    x = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")
    np.testing.assert_allclose(ours(x, sample=False), theirs(x), rtol=1e-6)
    assert np.min(theirs(x)) == 0.0


def test_a_convolution_is_made_with_the_arguments_of_keras():
    arguments = (4, 3, 2, "same", "channels_last", 1, 2, "relu", True)
    arguments += (keras.initializers.HeNormal(seed=1), "ones")
    ours = layers.Conv2DFlipout(*arguments, num_train_examples=1)
    theirs = keras.layers.Conv2D(*arguments)
    x = np.random.default_rng(0).normal(size=(2, 5, 6, 2)).astype("float32")
    np.testing.assert_allclose(
        ours(x, sample=False), theirs(x), rtol=1e-5, atol=1e-6
    )


def test_an_lstm_is_made_with_the_arguments_of_keras():
    kernel = keras.initializers.HeNormal(seed=1)
    arguments = (3, "softsign", "hard_sigmoid", True, kernel)
    arguments += (keras.initializers.Orthogonal(seed=2),)
    ours = layers.LSTMReparameterization(*arguments, num_train_examples=1)
    theirs = keras.layers.LSTM(*arguments)
    x = np.random.default_rng(0).normal(size=(2, 5, 2)).astype("float32")
    np.testing.assert_allclose(ours(x, sample=False), theirs(x), rtol=1e-5)


def test_the_other_order_of_one_keras_layer_does_not_pass_unseen():
    with pytest.raises(ValueError, match="output_padding"):
        layers.Conv3DTransposeFlipout(2, 3, 1, "same", "channels_last")


@every_twin
@pytest.mark.parametrize("name", ["kernel_size_", "units_", "posterior"])
def test_an_unknown_argument_is_refused(make, name):
    with pytest.raises(TypeError, match=f"unexpected keyword .*'{name}'"):
        make(**required(make), **{name: 1})


@every_twin
def test_posteriors_are_given_by_name(make):
    given = ["relu"] * (len(positional(make)) + 1)
    with pytest.raises(TypeError, match="positional arguments"):
        make(*given)


@every_twin
def test_the_quantization_of_a_keras_layer_is_refused(make):
    config = make(**required(make)).get_config()
    assert make.from_config(config | {"lora_rank": None}).name == config["name"]
    with pytest.raises(ValueError, match="`lora_rank` needs a deterministic"):
        make.from_config(config | {"lora_rank": 2})


@every_layer
def test_a_layer_is_shown_with_what_it_was_given_alone(make):
    arguments = required(make)
    layer = make(**arguments, name="mine")
    found = set(layer._shown_arguments())
    if "flow_length" in parameters(make):  # its default is chosen by another
        found.remove("bias_posterior")
    assert found == {*arguments, "name"}
    first, *_ = arguments or ["name"]
    assert repr(layer).startswith(f"{make.__name__}({first}=")
