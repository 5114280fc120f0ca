import functools
import itertools

import keras
import numpy as np
import pytest

from tfp_refine import layers
from tfp_refine.models import layer_maker

DENSE = [keras.layers.Dense, layers.DenseFlipout]


def _built(maker, layer, count=3, **arguments):
    """Makes layers of one shape, `[4, 5]`."""
    made = [maker(layer, 5, **arguments) for _ in range(count)]
    for one in made:
        one.build((None, 4))
    return made


def _all_differ(values):
    return not any(
        np.any(np.isclose(one, other, rtol=1e-6))
        for one, other in itertools.combinations(map(np.asarray, values), 2)
    )


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("layer", DENSE)
@pytest.mark.parametrize(
    "initializer", [None, "he_normal", keras.initializers.RandomNormal()]
)
def test_layers_with_one_initializer_start_from_different_values(
    seed, layer, initializer
):
    arguments = {"bias_initializer": keras.initializers.RandomNormal()}
    if initializer is not None:
        arguments["kernel_initializer"] = initializer
    made = _built(layer_maker.LayerMaker(seed), layer, **arguments)
    assert _all_differ([one.kernel for one in made])
    assert _all_differ([one.bias for one in made])
    initializers = [one.kernel_initializer for one in made]
    initializers += [one.bias_initializer for one in made]
    assert len(set(map(id, initializers))) == 6


def test_copies_are_of_the_same_distribution():
    given = keras.initializers.VarianceScaling(0.3, "fan_out", "uniform")
    made = _built(
        layer_maker.LayerMaker(2), keras.layers.Dense, kernel_initializer=given
    )
    seeds = {one.kernel_initializer.get_config()["seed"] for one in made}
    assert len(seeds - {None}) == 3
    for one in made:
        assert {**one.kernel_initializer.get_config(), "seed": None} == {
            **given.get_config(),
            "seed": None,
        }


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("layer", DENSE)
def test_a_seed_that_was_chosen_is_kept(seed, layer):
    chosen = keras.initializers.RandomNormal(seed=11)
    made = _built(
        layer_maker.LayerMaker(seed), layer, kernel_initializer=chosen
    )
    expected = keras.initializers.RandomNormal(seed=11)((4, 5))
    for one in made:
        np.testing.assert_array_equal(one.kernel, expected)


@pytest.mark.parametrize(
    "initializer",
    ["ones", keras.initializers.Constant(2.0), lambda shape, dtype: 0.5],
)
def test_what_is_not_random_is_kept(initializer):
    maker = layer_maker.LayerMaker(1)
    layer = maker(
        keras.layers.Dense,
        2,
        kernel_initializer=initializer,
        bias_initializer=initializer,
    )
    expected = keras.initializers.get(initializer)
    assert type(layer.kernel_initializer) is type(expected)
    if isinstance(initializer, str):
        layer.build((None, 3))
        np.testing.assert_array_equal(layer.kernel, 1.0)
    else:
        assert layer.kernel_initializer is initializer
        assert layer.bias_initializer is initializer


def test_biases_start_from_zero_unless_told_otherwise():
    for layer in _built(layer_maker.LayerMaker(1), layers.DenseFlipout):
        np.testing.assert_array_equal(layer.bias, 0.0)


def test_a_seed_fixes_weights_and_noise():
    def make(seed):
        made = _built(layer_maker.LayerMaker(seed), layers.DenseFlipout)
        return [one.seed for one in made], [
            np.array(one.kernel) for one in made
        ]

    seeds, kernels = make(5)
    assert len(set(seeds)) == 3
    np.testing.assert_array_equal(make(5)[1], kernels)
    # Nor do the streams of neighboring seeds overlap.
    assert not set(seeds) & set(make(6)[0])
    assert _all_differ([*kernels, *make(6)[1]])
    seeds, fresh = make(None)
    assert seeds == [None] * 3
    assert _all_differ([*fresh, *make(None)[1]])


def test_a_layers_own_seed_goes_before():
    maker = layer_maker.LayerMaker(5)
    assert maker(layers.DenseFlipout, 2, seed=1).seed == 1
    assert maker(layers.DenseFlipout, 2).seed > 1


def test_arguments_of_the_caller_are_not_changed():
    arguments = {"kernel_initializer": "he_normal", "activation": "relu"}
    layer_maker.LayerMaker(5)(layers.DenseFlipout, 2, **arguments)
    assert arguments == {
        "kernel_initializer": "he_normal",
        "activation": "relu",
    }


def test_noise_is_not_that_of_the_initial_weights():
    initial = keras.initializers.RandomNormal
    layer = layer_maker.LayerMaker(5)(
        layers.DenseReparameterization,
        40,
        use_bias=False,
        kernel_initializer=initial(stddev=1.0),
        kernel_posterior=layers.MeanFieldPosterior(1.0),
    )
    x = np.eye(40, dtype="float32")
    noise = np.asarray(layer(x) - layer(x, sample=False))
    correlation = np.corrcoef(np.ravel(layer.kernel), np.ravel(noise))[0, 1]
    assert abs(correlation) < 0.15  # six standard deviations


# Arguments of a model that are those of its layers.


def _maker(**arguments):
    return layer_maker.LayerMaker(1, arguments)


def test_layers_get_what_is_not_at_its_default():
    maker = _maker(
        kernel_posterior="k_tied", kl_scale=0.5, hidden=(3,), units=4
    )
    layer = maker(layers.DenseFlipout, 2)
    assert isinstance(layer.kernel_posterior, layers.KTiedPosterior)
    assert isinstance(layer.bias_posterior, layers.MeanFieldPosterior)
    assert layer.get_config()["kl_scale"] == 0.5
    assert layer.units == 2


@pytest.mark.parametrize(
    "layer", [keras.layers.Dense, layers.DenseMNF, layers.DenseFlipout]
)
def test_layers_do_not_get_defaults(layer):
    defaults = layer_maker._DEFAULTS
    assert len(defaults) == 7
    assert (
        _maker(**defaults)(layer, 2, name="a").get_config()
        == _maker()(layer, 2, name="a").get_config()
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel_posterior", "k_tied"),
        ("bias_posterior", "k_tied"),
        ("num_train_examples", 10),
        ("kl_scale", 0.5),
    ],
)
def test_an_argument_that_a_class_does_not_have_is_refused(name, value):
    message = f"`{name}` is not an argument of Dense. Received: {name}={value}"
    with pytest.raises(ValueError, match=message.replace("=k", "='k")):
        _maker(**{name: value})(keras.layers.Dense, 2)


def test_none_is_refused_only_where_there_is_a_posterior():
    maker = _maker(kernel_posterior=None)
    maker(keras.layers.Dense, 2)
    with pytest.raises(ValueError, match="`kernel_posterior` .* DenseMNF"):
        maker(layers.DenseMNF, 2)


def test_a_class_that_passes_arguments_on_has_those_of_its_base():
    class Own(layers.DenseFlipout):
        def __init__(self, units, **arguments):
            super().__init__(units, **arguments)

    assert _maker(num_train_examples=7)(Own, 2).num_train_examples == 7


def test_arguments_can_be_bound_to_a_class():
    layer = functools.partial(
        layers.DenseMNF,
        flow_length=0,
        num_train_examples=3,
        kl_scale=0.5,
        kernel_initializer="ones",
    )
    config = _maker(num_train_examples=7)(layer, 2).get_config()
    assert config["flow_length"] == 0
    assert config["num_train_examples"] == 7
    assert config["kl_scale"] == 0.5
    assert config["kernel_initializer"]["class_name"] == "Ones"
    assert config["seed"] is not None


@pytest.mark.parametrize(
    "layer",
    [lambda units: keras.layers.Dense(units), functools.partial(min, 3)]
    + [functools.partial(keras.layers.Dense, 3)],
)
def test_layers_are_made_by_classes(layer):
    with pytest.raises(ValueError, match="a class of layers, or a functools"):
        _maker()(layer, 2)
