import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import regularizers


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
    layout = functional.WeightLayout(model)
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
    layout = functional.WeightLayout(model)
    params = layout.params()
    assert params.shape == (2, layout.size)
    for row, attribute in enumerate(("loc", "untransformed_scale")):
        expected = np.concatenate(
            [np.ravel(getattr(w, attribute)) for w in layout.weights]
        )
        np.testing.assert_array_equal(params[row], expected)


def test_what_is_assigned_is_read_back(model, rng):
    layout = functional.WeightLayout(model)
    params = rng.normal(size=(2, layout.size)).astype("float32")
    layout.assign(params)
    np.testing.assert_array_equal(layout.params(), params)


def test_split_undoes_the_flattening(model):
    layout = functional.WeightLayout(model)
    locs, scales = layout.split(layout.params())
    for weight, loc, scale in zip(layout.weights, locs, scales, strict=True):
        np.testing.assert_array_equal(loc, weight.loc)
        np.testing.assert_array_equal(scale, weight.untransformed_scale)


def test_split_works_in_a_graph_on_stacked_members(model):
    layout = functional.WeightLayout(model)
    params = tf.stack([layout.params(), 2.0 * layout.params()])

    @tf.function
    def second_kernels(params):
        return tf.map_fn(lambda p: layout.split(p)[0][2], params)

    first, second = second_kernels(params)
    np.testing.assert_array_equal(first, layout.weights[2].loc)
    np.testing.assert_array_equal(second, 2.0 * first)


def test_the_prior_is_one_number_for_each_weight(model):
    layout = functional.WeightLayout(model)
    loc, scale = layout.prior()
    np.testing.assert_array_equal(loc, np.zeros(layout.size))
    np.testing.assert_array_equal(
        scale, np.repeat([1.0, 0.5, 1.0], [16, 16, 6])
    )


def test_a_weight_without_a_prior_is_named():
    layer = layers.DenseFlipout(2, bias_regularizer=None, name="dense")
    layer.build((None, 3))
    layout = functional.WeightLayout(layer)
    assert layout.params().shape == (2, 8)
    with pytest.raises(ValueError, match="'dense/bias_loc' has no prior"):
        layout.prior()


def test_a_model_without_posteriors_or_weights_is_refused():
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="has no variational layers"):
        functional.WeightLayout(plain)
    unbuilt = keras.Sequential([layers.DenseFlipout(2)], name="later")
    with pytest.raises(ValueError, match="'later' is not built"):
        functional.WeightLayout(unbuilt)


# With the weights that have no posterior.


@pytest.fixture
def mixed():
    """A model with points of many kinds among two random layers.

    Points: a kernel `[3, 4]` with a penalty and its bias `[4]`, gamma and beta
    `[4]` each, a bias `[2]` of a random layer with a penalty.
    """
    inputs = keras.Input((3,))
    x = keras.layers.Dense(4, kernel_regularizer="l2", name="first")(inputs)
    x = keras.layers.BatchNormalization(name="norm")(x)
    x = layers.DenseFlipout(
        2,
        kernel_regularizer=regularizers.EmpiricalBayesKL(),
        bias_posterior=None,
        bias_regularizer=keras.regularizers.L1(0.5),
        name="random",
    )(x)
    frozen = keras.layers.Dense(2, kernel_regularizer="l2", name="frozen")
    x = layers.DenseFlipout(2, use_bias=False, name="last")(frozen(x))
    frozen.trainable = False
    model = keras.Model(inputs, x)
    rng = np.random.default_rng(5)
    for variable in model.trainable_weights:
        variable.assign(rng.normal(size=variable.shape))
    return model


def test_points_are_the_other_trainable_weights_in_their_order(mixed):
    layout = functional.WeightLayout(mixed, points=True)
    assert [variable.path for variable in layout.points] == [
        "first/kernel",
        "first/bias",
        "norm/gamma",
        "norm/beta",
        "random/bias",
    ]
    without = functional.WeightLayout(mixed)
    assert without.points == []
    assert layout.size == without.size == 4 * 2 + 2 * 2
    assert without.params().shape == (2, 12)
    assert without.split_points(without.params()) == []


def test_points_are_columns_after_the_posterior(mixed):
    layout = functional.WeightLayout(mixed, points=True)
    params = layout.params()
    assert params.dtype == "float32"
    assert params.shape == (2, 12 + 12 + 4 + 4 + 4 + 2)
    plain = functional.WeightLayout(mixed).params()
    np.testing.assert_array_equal(params[:, :12], plain)
    values = np.concatenate([np.ravel(v) for v in layout.points])
    np.testing.assert_array_equal(params[0, 12:], values)
    np.testing.assert_array_equal(params[1, 12:], 0.0)


def test_points_that_are_assigned_are_read_back(mixed, rng):
    layout = functional.WeightLayout(mixed, points=True)
    others = [
        variable
        for variable in mixed.weights
        if not any(variable is point for point in layout.points)
        and not variable.path.endswith(("_loc", "kernel_untransformed_scale"))
    ]
    # The learned prior, batch statistics, the frozen layer's two.
    assert len(others) == 5
    before = layer_case.values(others)
    params = rng.normal(size=layout.params().shape).astype("float32")
    params[1, 12:] = 0.0
    layout.assign(params)
    np.testing.assert_array_equal(layout.params(), params)
    for variable, value in zip(others, before, strict=True):
        np.testing.assert_array_equal(variable, value)
    np.testing.assert_array_equal(
        np.ravel(mixed.get_layer("random").bias), params[0, -2:]
    )


def test_split_undoes_the_flattening_of_points(mixed):
    layout = functional.WeightLayout(mixed, points=True)
    params = layout.params()
    locs, scales = layout.split(params)
    for weight, loc, scale in zip(layout.weights, locs, scales, strict=True):
        np.testing.assert_array_equal(loc, weight.loc)
        np.testing.assert_array_equal(scale, weight.untransformed_scale)
    for variable, point in zip(
        layout.points, layout.split_points(params), strict=True
    ):
        assert point.dtype == variable.dtype
        np.testing.assert_array_equal(point, variable)


def test_points_keep_their_dtypes():
    inputs = keras.Input((3,))
    x = keras.layers.Dense(2, dtype="float64")(inputs)
    x = keras.layers.Dense(2, dtype="mixed_float16")(x)
    model = keras.Model(inputs, layers.DenseFlipout(2)(x))
    layout = functional.WeightLayout(model, points=True)
    assert layout.params().dtype == "float32"
    points = layout.split_points(layout.params())
    assert [point.dtype.name for point in points] == (
        ["float64"] * 2 + ["float32"] * 2
    )
    layout.assign(layout.params())
    assert [v.dtype for v in layout.points] == ["float64"] * 2 + ["float32"] * 2


def test_shared_and_nested_points_come_once():
    inner_inputs = keras.Input((2,))
    inner = keras.Model(
        inner_inputs, keras.layers.Dense(2, name="inner")(inner_inputs)
    )
    inputs = keras.Input((2,))
    x = inner(inner(inputs))
    outputs = layers.HomoscedasticNoise(name="noise")(layers.DenseFlipout(1)(x))
    layout = functional.WeightLayout(keras.Model(inputs, outputs), points=True)
    assert [tuple(v.shape) for v in layout.points] == [(2, 2), (2,), (1,)]
    assert layout.points[-1].path == "noise/untransformed_scale"


def test_a_model_without_points_has_the_params_without(model):
    model.layers[-2].trainable = False
    model.get_layer("last").trainable = False
    layout = functional.WeightLayout(model, points=True)
    plain = functional.WeightLayout(model)
    assert layout.points == [] == layout.split_points(layout.params())
    np.testing.assert_array_equal(layout.params(), plain.params())
    assert layout.point_penalty(layout.params()).numpy() == 0.0


def test_penalty_is_that_of_the_points_as_they_are_given(mixed, rng):
    layout = functional.WeightLayout(mixed, points=True)
    params = rng.normal(size=layout.params().shape).astype("float32")
    # "l2" is 0.01 times the squares, L1(0.5) half the absolute values.
    expected = 0.01 * np.sum(params[0, 12:24] ** 2)
    expected += 0.5 * np.sum(np.abs(params[0, -2:]))
    penalty = layout.point_penalty(params)
    assert penalty.dtype == "float32"
    np.testing.assert_allclose(penalty, expected, rtol=1e-5)
    no_regularizer = functional.WeightLayout(mixed)
    assert no_regularizer.point_penalty(params[:, :12]).numpy() == 0.0


def test_penalty_is_in_the_loss_that_keras_trains(mixed):
    layout = functional.WeightLayout(mixed, points=True)
    layers.set_num_train_examples(mixed, 10)
    mixed.get_layer("frozen").kernel_regularizer = None
    kl = sum(weight.kl() for weight in layout.weights) / 10
    np.testing.assert_allclose(
        layout.point_penalty(layout.params()),
        sum(mixed.losses) - kl,
        rtol=1e-4,
    )
