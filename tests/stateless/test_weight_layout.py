import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tfp_refine import layers
from tfp_refine import regularizers
from tfp_refine import stateless


@pytest.fixture
def model():
    """Kernels `[3, 4]`, `[4, 4]` (called twice) and a bias `[4]`, `[2]`."""
    inputs = keras.Input((3,))
    x = layers.DenseFlipout(4, name="first")(inputs)
    shared = layers.DenseFlipout(
        4, name="shared", kernel_regularizer=regularizers.GaussianKL(0.5)
    )
    x = shared(shared(x))
    x = keras.layers.Dense(4)(x)
    x = layers.DenseFlipout(2, kernel_posterior=None, name="last")(x)
    model = keras.Model(inputs, x)
    for name in ("first", "shared", "last"):
        layer_case.spread(model.get_layer(name))
    return model


def test_every_weight_comes_once_in_the_order_of_the_layers(model):
    layout = stateless.WeightLayout(model)
    assert [w.loc.path for w in layout.weights] == [
        "first/kernel_loc",
        "first/bias_loc",
        "shared/kernel_loc",
        "shared/bias_loc",
        "last/bias_loc",
    ]
    assert layout.size == 3 * 4 + 4 + 4 * 4 + 4 + 2
    assert layout.dtype == "float32"


def test_params_hold_means_and_untransformed_scales(model):
    layout = stateless.WeightLayout(model)
    params = layout.params()
    assert params.shape == (2, layout.size)
    for row, attribute in enumerate(("loc", "untransformed_scale")):
        expected = np.concatenate(
            [np.ravel(getattr(w, attribute)) for w in layout.weights]
        )
        np.testing.assert_array_equal(params[row], expected)


def test_what_is_assigned_is_read_back(model, rng):
    layout = stateless.WeightLayout(model)
    params = rng.normal(size=(2, layout.size)).astype("float32")
    layout.assign(params)
    np.testing.assert_array_equal(layout.params(), params)


def test_split_undoes_the_flattening(model):
    layout = stateless.WeightLayout(model)
    locs, scales = layout.split(layout.params())
    for weight, loc, scale in zip(layout.weights, locs, scales, strict=True):
        np.testing.assert_array_equal(loc, weight.loc)
        np.testing.assert_array_equal(scale, weight.untransformed_scale)


def test_split_works_in_a_graph_on_stacked_members(model):
    layout = stateless.WeightLayout(model)
    params = tf.stack([layout.params(), 2.0 * layout.params()])

    @tf.function
    def second_kernels(params):
        return tf.map_fn(lambda p: layout.split(p)[0][2], params)

    first, second = second_kernels(params)
    np.testing.assert_array_equal(first, layout.weights[2].loc)
    np.testing.assert_array_equal(second, 2.0 * first)


def test_the_prior_is_one_number_for_each_weight(model):
    layout = stateless.WeightLayout(model)
    loc, scale = layout.prior()
    np.testing.assert_array_equal(loc, np.zeros(layout.size))
    np.testing.assert_array_equal(
        scale, np.repeat([1.0, 0.5, 1.0], [16, 16, 6])
    )


def test_a_weight_without_a_prior_is_named():
    layer = layers.DenseFlipout(2, bias_regularizer=None, name="dense")
    layer.build((None, 3))
    layout = stateless.WeightLayout(layer)
    assert layout.params().shape == (2, 8)
    with pytest.raises(ValueError, match="'dense/bias_loc' has no prior"):
        layout.prior()


def test_a_model_without_posteriors_or_weights_is_refused():
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="has no variational layers"):
        stateless.WeightLayout(plain)
    unbuilt = keras.Sequential([layers.DenseFlipout(2)], name="later")
    with pytest.raises(ValueError, match="'later' is not built"):
        stateless.WeightLayout(unbuilt)
