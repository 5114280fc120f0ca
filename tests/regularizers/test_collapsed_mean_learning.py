"""`CollapsedMeanKL` with an `alpha_reg` that is learned (CM-OPT)."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import optimize
from scipy import stats

from tests.support import layer_case
from tfp_refine import layers
from tfp_refine import regularizers

LEAST = 1e-4  # of a learned `alpha_reg`


def build(regularizer, *, bias=None, inputs=3, units=2, size=2.0):
    """Builds a float64 layer whose means are of a given size."""
    layer = layers.DenseReparameterization(
        units,
        kernel_regularizer=regularizer,
        bias_regularizer=regularizer if bias is None else bias,
        num_train_examples=1,
        dtype="float64",
    )
    layer.build((None, inputs))
    layer_case.spread(layer)
    for weight in layer.variational_weights:
        weight.assign(loc=size * weight.loc)
    return layer


def collapsed(learn, **arguments):
    return regularizers.CollapsedMeanKL(0.3, learn=learn, **arguments)


def weights_of(*all_layers):
    return [w for layer in all_layers for w in layer.variational_weights]


def total(*all_layers):
    """Computes the KL of all layers, nats, as a tensor."""
    return keras.ops.sum([loss for lay in all_layers for loss in lay.losses])


def alphas(*all_layers):
    """Returns the `alpha_reg` of each weight tensor that has one."""
    return [
        float(
            weight.regularizer.current_alpha_reg(
                tf.convert_to_tensor(weight.loc), weight.prior_weights
            )
        )
        for weight in weights_of(*all_layers)
        if isinstance(weight.regularizer, regularizers.CollapsedMeanKL)
    ]


def logits(*all_layers):
    """Returns the variables of `alpha_reg`, each as often as it is used."""
    return [
        weight.prior_weights[0]
        for weight in weights_of(*all_layers)
        if weight.prior_weights
    ]


def best_alpha(*all_layers, rate=0.0):
    """Solves for `alpha_reg` by hand."""
    squares = np.concatenate(
        [
            np.ravel(np.square(weight.loc)) / weight.regularizer.prior_scale**2
            for weight in weights_of(*all_layers)
        ]
    )
    return np.clip(1.0 / (np.mean(squares) + 2.0 * rate), LEAST, 1.0)


def cost(alpha, *all_layers, rate=None):
    """Computes by hand the cost of a group of tensors at an `alpha_reg`."""
    kl, size = 0.0, 0
    for weight in weights_of(*all_layers):
        gamma = weight.regularizer.prior_scale**2
        squares, variances = np.square(weight.loc), np.square(weight.scale)
        kl += 0.5 * np.sum(
            np.log(gamma / variances / alpha)
            + (variances + alpha * squares) / gamma
            - 1.0
        )
        size += squares.size
    if rate is None:
        return kl
    return kl - stats.expon(scale=1.0 / (rate * size)).logpdf(alpha)


# In closed form.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "rate", "interior"),
    [(2.0, None, True), (0.6, 5.0, True), (0.01, None, False),
     (300.0, None, False)],
)  # fmt: skip
def test_closed_form_is_the_least_cost_of_all_alphas(size, rate, interior):
    layer = build(collapsed("closed_form", exponential_rate=rate), size=size)
    expected = best_alpha(layer, rate=rate or 0.0)
    assert (LEAST < expected < 1.0) == interior
    # The kernel and the bias share it.
    np.testing.assert_allclose(alphas(layer), [expected] * 2, rtol=1e-12)
    least = float(total(layer))
    np.testing.assert_allclose(
        least, cost(expected, layer, rate=rate), rtol=1e-12
    )
    grid = np.geomspace(LEAST, 1.0, 50)
    assert least <= min(cost(a, layer, rate=rate) for a in grid) + 1e-9
    if interior:
        found = optimize.minimize_scalar(
            lambda logit: cost(1 / (1 + np.exp(-logit)), layer, rate=rate),
            bounds=(-9.0, 9.0),
            method="bounded",
            options={"xatol": 1e-9},
        )
        np.testing.assert_allclose(
            1 / (1 + np.exp(-found.x)), expected, rtol=1e-6
        )
        np.testing.assert_allclose(found.fun, least, rtol=1e-12)


@pytest.mark.parametrize("learn", ["closed_form", "gradient"])
@pytest.mark.parametrize("rate", [0.3, 5.0])
def test_the_hyperprior_adds_its_negative_log_density_once(learn, rate):
    layer = build(collapsed(learn, exponential_rate=rate))
    (alpha, again) = alphas(layer)
    assert alpha == again
    # 6 weights of the kernel and 2 of the bias.
    penalty = -stats.expon(scale=1.0 / (rate * 8)).logpdf(alpha)
    np.testing.assert_allclose(
        float(total(layer)) - cost(alpha, layer), penalty, rtol=1e-10
    )
    # So do its constants: a part for each tensor.
    parts = [
        float(w.regularizer.penalty(w.loc, w.scale, w.prior_weights))
        for w in layer.variational_weights
    ]
    constants = np.array(parts) - rate * alpha * np.array([6, 2])
    np.testing.assert_allclose(
        constants, -np.log(8 * rate) * np.array([6, 2]) / 8, rtol=1e-10
    )


def gradient_by_differences(value, variable, step=1e-5):
    """Differentiates `value()`, coordinate by coordinate."""
    start = np.array(variable)
    found = np.zeros_like(start)
    for index in np.ndindex(*start.shape):
        values = []
        for sign in (1.0, -1.0):
            moved = start.copy()
            moved[index] += sign * step
            variable.assign(moved)
            values.append(float(value()))
        found[index] = (values[0] - values[1]) / (2.0 * step)
    variable.assign(start)
    return found


def assert_gradients_are_right(*all_layers):
    """Compares the gradients of the KL of layers with finite differences."""
    variables = [
        variable
        for weight in weights_of(*all_layers)
        for variable in (weight.loc, *weight.scale_weights)
    ]
    with tf.GradientTape() as tape:
        kl = total(*all_layers)
    gradients = tape.gradient(kl, [v.value for v in variables])
    value = tf.function(lambda: total(*all_layers))
    for variable, gradient in zip(variables, gradients, strict=True):
        np.testing.assert_allclose(
            gradient,
            gradient_by_differences(value, variable),
            rtol=1e-6,
            atol=1e-7,
            err_msg=variable.path,
        )


@pytest.mark.slow
@pytest.mark.parametrize("rate", [None, 5.0])
@pytest.mark.parametrize("shared", [False, True])
def test_gradient_sees_that_alpha_follows_the_means(rate, shared):
    regularizer = collapsed("closed_form", exponential_rate=rate, shared=shared)
    both = build(regularizer, units=1), build(regularizer, inputs=1, units=1)
    assert all(LEAST < alpha < 1.0 for alpha in alphas(*both))
    assert_gradients_are_right(*both)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "bias"),
    [
        (collapsed("closed_form"), collapsed(None)),
        (collapsed("closed_form"), collapsed("gradient")),
        (
            collapsed("closed_form", exponential_rate=5.0),
            collapsed("closed_form"),
        ),
    ],
    ids=["fixed", "by_gradient", "other_rate"],
)
def test_gradient_is_right_where_kernel_and_bias_learn_differently(
    kernel, bias
):
    layer = build(kernel, bias=bias, inputs=2, units=1)
    assert alphas(layer)[0] != alphas(layer)[1]
    assert_gradients_are_right(layer)


def test_without_a_layer_the_closed_form_is_that_of_the_tensor(rng):
    loc, scale = rng.normal(size=(6, 5)), rng.uniform(0.1, 2.0, size=(6, 5))
    regularizer = collapsed("closed_form", prior_scale=0.4)
    alpha = 0.4**2 / np.mean(np.square(loc))
    np.testing.assert_allclose(
        regularizer.current_alpha_reg(tf.constant(loc)), alpha, rtol=1e-12
    )
    np.testing.assert_allclose(
        regularizer(loc, scale),
        regularizers.CollapsedMeanKL(alpha, 0.4)(loc, scale),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        regularizer.prior(tf.constant(loc), scale).scale,
        np.sqrt(np.mean(np.square(loc))),
        rtol=1e-12,
    )


# By gradient.


@pytest.mark.parametrize("alpha", [1e-5, 1e-4, 0.05, 0.5, 0.99, 1.0])
def test_variable_starts_at_alpha_within_its_range(alpha):
    layer = build(regularizers.CollapsedMeanKL(alpha, learn="gradient"))
    np.testing.assert_allclose(
        alphas(layer), [max(alpha, LEAST)] * 2, rtol=0.011, atol=2e-6
    )
    if LEAST < alpha < 1.0:
        np.testing.assert_allclose(alphas(layer), [alpha] * 2, rtol=1e-6)


def test_kernel_and_bias_share_one_variable():
    layer = build(collapsed("gradient"))
    kernel, bias = logits(layer)
    assert kernel is bias
    assert kernel.shape == ()
    assert kernel.trainable
    assert [v.name for v in layer.trainable_variables].count(
        "kernel_prior_alpha_reg_logit"
    ) == 1
    # Also if a file gave each of them an object of its own.
    other = layers.DenseFlipout.from_config(
        layers.DenseFlipout(
            2,
            kernel_regularizer=collapsed("gradient"),
            bias_regularizer=collapsed("gradient"),
        ).get_config()
    )
    other.build((None, 3))
    assert logits(other)[0] is logits(other)[1]


def test_layers_do_not_share_unless_told():
    regularizer = collapsed("gradient")
    one, two = build(regularizer), build(regularizer)
    assert logits(one)[0] is not logits(two)[0]
    logits(one)[0].assign(2.0)
    assert alphas(one)[0] > 0.8
    np.testing.assert_allclose(alphas(two), [0.3] * 2, rtol=1e-6)


def minimize(optimizer, steps, *all_layers):
    """Trains `alpha_reg` alone, and nothing else, on the KL."""
    (variable,) = {id(v): v for v in logits(*all_layers)}.values()

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            kl = total(*all_layers)
        optimizer.apply([tape.gradient(kl, variable.value)], [variable])

    for _ in range(steps):
        step()


@pytest.mark.slow
@pytest.mark.parametrize("rate", [None, 5.0])
@pytest.mark.parametrize("shared", [False, True])
def test_training_alpha_alone_converges_to_the_closed_form(rate, shared):
    regularizer = collapsed("gradient", exponential_rate=rate, shared=shared)
    group = [build(regularizer, size=0.8)]
    if shared:
        group.append(build(regularizer, inputs=2, units=1, size=0.8))
    size = sum(np.size(weight.loc) for weight in weights_of(*group))
    minimize(keras.optimizers.SGD(2.0 / size), 150, *group)
    expected = best_alpha(*group, rate=rate or 0.0)
    assert LEAST < expected < 1.0
    np.testing.assert_allclose(alphas(*group), expected, rtol=1e-6)
    np.testing.assert_allclose(
        total(*group), cost(expected, *group, rate=rate), rtol=1e-10
    )


@pytest.mark.slow
@pytest.mark.parametrize(("size", "bound"), [(0.01, 1.0), (300.0, LEAST)])
def test_training_alpha_alone_stays_within_its_bounds(size, bound):
    layer = build(collapsed("gradient"), size=size)
    # Steps of equal length, up to where the gradient vanishes.
    minimize(keras.optimizers.Adam(0.2, beta_1=0.0, beta_2=0.1), 100, layer)
    assert best_alpha(layer) == bound
    np.testing.assert_allclose(alphas(layer), bound, rtol=1e-3)
    assert LEAST <= alphas(layer)[0] <= 1.0


# Shared by layers.


def make_model(regularizer, bias=None, dtype="float64"):
    """Returns a model of two layers that are given one object."""
    inputs = keras.Input((3,))
    x = inputs
    for units in (4, 2):
        x = layers.DenseFlipout(
            units,
            kernel_regularizer=regularizer,
            bias_regularizer=regularizer if bias is None else bias,
            num_train_examples=1,
            dtype=dtype,
        )(x)
    model = keras.Model(inputs, x)
    for layer in model.layers[1:]:
        layer_case.spread(layer)
    return model


def test_one_object_is_one_variable_of_a_model():
    model = make_model(collapsed("gradient", shared=True))
    variables = logits(*model.layers[1:])
    assert len(variables) == 4
    assert len({id(variable) for variable in variables}) == 1
    # 2 layers, 4 variables each, and this one.
    assert len(model.trainable_variables) == 9
    variables[0].assign(-1.0)
    found = alphas(*model.layers[1:])
    np.testing.assert_allclose(found, LEAST + (1 - LEAST) / (1 + np.e))
    # Of `gamma` each layer has its own.
    scales = [w.prior.scale for w in weights_of(*model.layers[1:])]
    np.testing.assert_allclose(
        np.square(scales) * found[0], [1 / 3, 1 / 3, 1 / 4, 1 / 4], rtol=1e-12
    )


@pytest.mark.parametrize("rate", [None, 5.0])
def test_shared_closed_form_is_that_of_all_layers(rate):
    model = make_model(
        collapsed("closed_form", exponential_rate=rate, shared=True)
    )
    group = model.layers[1:]
    expected = best_alpha(*group, rate=rate or 0.0)
    np.testing.assert_allclose(alphas(*group), [expected] * 4, rtol=1e-12)
    np.testing.assert_allclose(
        total(*group), cost(expected, *group, rate=rate), rtol=1e-12
    )
    assert len(model.trainable_variables) == 8


@pytest.mark.slow
@pytest.mark.parametrize("learn", ["closed_form", "gradient"])
@pytest.mark.parametrize("bias", [None, regularizers.GaussianKL()])
def test_what_layers_share_survives_a_file(learn, bias, tmp_path):
    regularizer = collapsed(learn, exponential_rate=5.0, shared=True)
    model = make_model(regularizer, bias)
    if learn == "gradient":
        logits(*model.layers[1:])[0].assign(-1.0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")

    assert len(loaded.weights) == len(model.weights)
    assert alphas(*loaded.layers[1:]) == alphas(*model.layers[1:])
    assert len(set(alphas(*loaded.layers[1:]))) == 1
    np.testing.assert_array_equal(loaded.losses, model.losses)
    # They share it with each other, not with the model that was saved.
    for layer in model.layers[1:]:
        for variable in layer.trainable_variables:
            variable.assign(variable + 1.0)
    assert alphas(*loaded.layers[1:]) != alphas(*model.layers[1:])
    assert len(set(alphas(*loaded.layers[1:]))) == 1


@pytest.mark.parametrize("learn", ["closed_form", "gradient"])
def test_a_new_object_has_an_alpha_of_its_own(learn):
    first, second = (
        make_model(collapsed(learn, shared=True)) for _ in range(2)
    )
    before = alphas(*first.layers[1:])
    for variable in second.trainable_variables:
        variable.assign(3.0 * variable + 1.0)
    assert alphas(*first.layers[1:]) == before
    assert alphas(*second.layers[1:]) != before


# In training.


@pytest.mark.slow
@pytest.mark.parametrize("learn", ["closed_form", "gradient"])
def test_fitting_a_model_learns_alpha(learn, rng):
    model = make_model(collapsed(learn, shared=True), dtype="float32")
    before = alphas(*model.layers[1:])
    model.compile(keras.optimizers.Adam(0.05), "mse", jit_compile=False)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    history = model.fit(x, y, batch_size=4, epochs=2, verbose=0).history
    assert np.all(np.isfinite(history["loss"]))
    after = alphas(*model.layers[1:])
    assert not np.any(np.isclose(before, after))
    assert len(set(after)) == 1
