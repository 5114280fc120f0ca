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
    view = functional.MeanFieldView(model)
    assert [w.loc.path for w in view.weights] == [
        "first/kernel_loc",
        "first/bias_loc",
        "shared/kernel_loc",
        "shared/bias_loc",
        "last/bias_loc",
    ]
    assert view.size == 3 * 4 + 4 + 4 * 4 + 4 + 2
    assert view.dtype == "float32"


def test_params_hold_means_and_untransformed_scales(model):
    view = functional.MeanFieldView(model)
    params = view.params()
    assert params.shape == (2, view.size)
    for row, attribute in enumerate(("loc", "untransformed_scale")):
        expected = np.concatenate(
            [np.ravel(getattr(w, attribute)) for w in view.weights]
        )
        np.testing.assert_array_equal(params[row], expected)


def test_what_is_assigned_is_read_back(model, rng):
    view = functional.MeanFieldView(model)
    params = rng.normal(size=(2, view.size)).astype("float32")
    view.assign(params)
    np.testing.assert_array_equal(view.params(), params)


@pytest.mark.parametrize("deterministic", [False, True])
def test_split_undoes_the_flattening(mixed, deterministic):
    view = functional.MeanFieldView(mixed, deterministic)
    values = view.split(view.params())
    assert len(values) == 4 + 5 * deterministic
    for value, variable in zip(values, view.variables, strict=True):
        assert value.dtype == variable.dtype
        np.testing.assert_array_equal(value, variable)


def test_split_works_in_a_graph_on_stacked_members(model):
    view = functional.MeanFieldView(model)
    params = tf.stack([view.params(), 2.0 * view.params()])

    @tf.function
    def second_kernels(params):
        return tf.map_fn(lambda p: view.split(p)[2], params)

    first, second = second_kernels(params)
    np.testing.assert_array_equal(first, view.weights[2].loc)
    np.testing.assert_array_equal(second, 2.0 * first)


def test_the_prior_is_one_number_for_each_weight(model):
    view = functional.MeanFieldView(model)
    loc, scale = view.prior()
    np.testing.assert_array_equal(loc, np.zeros(view.size))
    np.testing.assert_array_equal(
        scale, np.repeat([1.0, 0.5, 1.0], [16, 16, 6])
    )


def test_a_weight_without_a_prior_is_named():
    layer = layers.DenseFlipout(2, bias_regularizer=None, name="dense")
    layer.build((None, 3))
    view = functional.MeanFieldView(layer)
    assert view.params().shape == (2, 8)
    with pytest.raises(ValueError, match="'dense/bias_loc' has no prior"):
        view.prior()


def test_a_model_without_posteriors_or_weights_is_refused():
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="has no variational layers"):
        functional.MeanFieldView(plain)
    unbuilt = keras.Sequential([layers.DenseFlipout(2)], name="later")
    with pytest.raises(ValueError, match="'later' is not built"):
        functional.MeanFieldView(unbuilt)


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


def test_deterministic_weights_are_the_other_trainable_weights_in_their_order(
    mixed,
):
    view = functional.MeanFieldView(mixed, deterministic=True)
    assert [variable.path for variable in view.deterministic_weights] == [
        "first/kernel",
        "first/bias",
        "norm/gamma",
        "norm/beta",
        "random/bias",
    ]
    without = functional.MeanFieldView(mixed)
    assert without.deterministic_weights == []
    assert (view.size, without.size) == (12 + 26, 12)
    assert without.params().shape == (2, 12)
    assert len(without.split(without.params())) == 4
    assert without.num_weights == view.num_weights == 4 * 2 + 2 * 2


def test_deterministic_weights_are_columns_after_the_posterior(mixed):
    view = functional.MeanFieldView(mixed, deterministic=True)
    params = view.params()
    assert params.dtype == "float32"
    assert params.shape == (2, 12 + 12 + 4 + 4 + 4 + 2)
    plain = functional.MeanFieldView(mixed).params()
    np.testing.assert_array_equal(params[:, :12], plain)
    values = np.concatenate([np.ravel(v) for v in view.deterministic_weights])
    np.testing.assert_array_equal(params[0, 12:], values)
    np.testing.assert_array_equal(params[1, 12:], 0.0)


def test_deterministic_weights_that_are_assigned_are_read_back(mixed, rng):
    view = functional.MeanFieldView(mixed, deterministic=True)
    others = [
        variable
        for variable in mixed.weights
        if not any(variable is point for point in view.deterministic_weights)
        and not variable.path.endswith(("_loc", "kernel_untransformed_scale"))
    ]
    # The learned prior, batch statistics, the frozen layer's two.
    assert len(others) == 5
    before = layer_case.values(others)
    params = rng.normal(size=view.params().shape).astype("float32")
    params[1, 12:] = 0.0
    view.assign(params)
    np.testing.assert_array_equal(view.params(), params)
    for variable, value in zip(others, before, strict=True):
        np.testing.assert_array_equal(variable, value)
    np.testing.assert_array_equal(
        np.ravel(mixed.get_layer("random").bias), params[0, -2:]
    )


def test_deterministic_weights_keep_their_dtypes():
    inputs = keras.Input((3,))
    x = keras.layers.Dense(2, dtype="float64")(inputs)
    x = keras.layers.Dense(2, dtype="mixed_float16")(x)
    model = keras.Model(inputs, layers.DenseFlipout(2)(x))
    view = functional.MeanFieldView(model, deterministic=True)
    assert view.params().dtype == "float32"
    points = view.split(view.params())[-4:]
    assert [point.dtype.name for point in points] == (
        ["float64"] * 2 + ["float32"] * 2
    )
    view.assign(view.params())
    assert [v.dtype for v in view.deterministic_weights] == ["float64"] * 2 + [
        "float32"
    ] * 2


def test_shared_and_nested_deterministic_weights_come_once():
    inner_inputs = keras.Input((2,))
    inner = keras.Model(
        inner_inputs, keras.layers.Dense(2, name="inner")(inner_inputs)
    )
    inputs = keras.Input((2,))
    x = inner(inner(inputs))
    outputs = layers.HomoscedasticNoise(name="noise")(layers.DenseFlipout(1)(x))
    view = functional.MeanFieldView(
        keras.Model(inputs, outputs), deterministic=True
    )
    assert [tuple(v.shape) for v in view.deterministic_weights] == [
        (2, 2),
        (2,),
        (1,),
    ]
    assert view.deterministic_weights[-1].path == "noise/untransformed_scale"


def test_a_model_without_deterministic_weights_has_the_params_without(model):
    model.layers[-2].trainable = False
    model.get_layer("last").trainable = False
    view = functional.MeanFieldView(model, deterministic=True)
    plain = functional.MeanFieldView(model)
    assert view.deterministic_weights == []
    assert view.size == view.num_weights == plain.size
    np.testing.assert_array_equal(view.params(), plain.params())
    assert view.penalty(view.params()).numpy() == 0.0


def test_penalty_is_that_of_the_deterministic_weights_as_they_are_given(
    mixed, rng
):
    view = functional.MeanFieldView(mixed, deterministic=True)
    params = rng.normal(size=view.params().shape).astype("float32")
    # "l2" is 0.01 times the squares, L1(0.5) half the absolute values.
    expected = 0.01 * np.sum(params[0, 12:24] ** 2)
    expected += 0.5 * np.sum(np.abs(params[0, -2:]))
    penalty = view.penalty(params)
    assert penalty.dtype == "float32"
    np.testing.assert_allclose(penalty, expected, rtol=1e-5)
    no_regularizer = functional.MeanFieldView(mixed)
    assert no_regularizer.penalty(params[:, :12]).numpy() == 0.0


def test_penalty_is_in_the_loss_that_keras_trains(mixed):
    view = functional.MeanFieldView(mixed, deterministic=True)
    layers.set_num_train_examples(mixed, 10)
    mixed.get_layer("frozen").kernel_regularizer = None
    kl = sum(weight.kl() for weight in view.weights) / 10
    np.testing.assert_allclose(
        view.penalty(view.params()),
        sum(mixed.losses) - kl,
        rtol=1e-4,
    )


# Called with its vector.


@pytest.fixture
def x(rng):
    return rng.normal(size=(5, 3)).astype("float32")


def at_means(view, x, params):
    """Calls the model at the means: with scales that are nearly zero."""
    params = np.array(params)
    params[1, : view.num_weights] = -30.0
    return np.asarray(view.call(x, params, view.fixed(), 1, 0))


@pytest.mark.parametrize("deterministic", [False, True])
def test_means_scales_and_deterministic_weights_are_arguments(
    mixed, x, deterministic
):
    view = functional.MeanFieldView(mixed, deterministic)
    params = view.params()
    with layers.mean_weights():
        expected = mixed(x)
    before = at_means(view, x, params)
    np.testing.assert_allclose(before, expected, rtol=1e-4, atol=1e-5)
    # The scales have their effect.
    draw = view.call(x, params, view.fixed(), 1, 0)
    assert layer_case.differ(draw, before)
    # So has each part of the first row.
    count = view.num_weights
    for columns in (slice(0, count), slice(count, view.size)):
        changed = params.numpy()
        changed[0, columns] += 0.1
        differs = layer_case.differ(at_means(view, x, changed), before)
        assert differs == (columns.start == 0 or deterministic)
    # The same as after an assignment.
    changed = params + 0.1
    expected = at_means(view, x, changed)
    view.assign(changed)
    np.testing.assert_array_equal(at_means(view, x, changed), expected)
    with layers.mean_weights():
        np.testing.assert_allclose(mixed(x), expected, rtol=1e-4, atol=1e-5)


def test_the_rest_is_fixed(mixed, x):
    view = functional.MeanFieldView(mixed, deterministic=True)
    assert [variable.path for variable in view.fixed_variables] == [
        "norm/moving_mean",
        "norm/moving_variance",
        "random/kernel_prior_untransformed_scale",
        "frozen/kernel",
        "frozen/bias",
    ]
    before = at_means(view, x, view.params())
    fixed = view.fixed()
    mixed.get_layer("norm").moving_mean.assign([1.0, -1.0, 2.0, 0.5])
    assert layer_case.differ(at_means(view, x, view.params()), before)
    found = view.call(x, view.params(), fixed, 1, 0)
    mixed.get_layer("norm").moving_mean.assign([0.0] * 4)
    np.testing.assert_array_equal(
        found, view.call(x, view.params(), view.fixed(), 1, 0)
    )


def test_second_row_of_deterministic_weights_means_nothing(mixed, x):
    view = functional.MeanFieldView(mixed, deterministic=True)
    params = view.params().numpy()
    before = view.call(x, params, view.fixed(), 1, 0)
    params[1, view.num_weights :] = 7.0
    np.testing.assert_array_equal(
        view.call(x, params, view.fixed(), 1, 0), before
    )


def test_a_vector_may_be_read_from_another_model_of_the_kind(mixed):
    view = functional.MeanFieldView(mixed, deterministic=True)
    other = keras.models.clone_model(mixed)
    other.get_layer("frozen").trainable = False
    expected = functional.MeanFieldView(other, deterministic=True).params()
    np.testing.assert_array_equal(view.params(other), expected)


# Starts that refinement refuses.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_posterior": "low_rank"}, "'dense/.*' of the family 'low_ra"),
        ({"kernel_posterior": "k_tied"}, "mean-field.* 'k_tied'"),
    ],
)
def test_other_families_are_refused(options, message):
    inputs = keras.Input((3,))
    layer = layers.DenseReparameterization(2, name="dense", **options)
    with pytest.raises(ValueError, match=message):
        functional.MeanFieldView(keras.Model(inputs, layer(inputs)))


def test_limited_scales_are_refused():
    inputs = keras.Input((3,))
    layer = layers.DenseMNF(2, flow_length=0, max_std=0.1, name="dense")
    with pytest.raises(ValueError, match="(family|max_std=0.1)"):
        functional.MeanFieldView(keras.Model(inputs, layer(inputs)))


def test_what_is_no_model_is_refused():
    with pytest.raises(ValueError, match="must be a keras.Model.*str"):
        functional.MeanFieldView("model")
