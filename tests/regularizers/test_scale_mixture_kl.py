import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tests.support import layer_case
from tests.support import statistics
from tfp_refine import layers
from tfp_refine import regularizers

NUM_TRAIN_EXAMPLES = 7

# Four inputs, one by one, and none: outputs are rows of the kernel, each with
# the bias added to it, and the bias.
INPUTS = np.vstack([np.eye(4), np.zeros((1, 4))])

# Mixture weight and the scales of both components.
MIXTURE = (0.3, 0.8, 0.05)


def build(arguments=MIXTURE, dtype="float64", **others):
    """Builds a layer whose draws can be read off its outputs."""
    regularizer = regularizers.ScaleMixtureKL(*arguments)
    layer = layers.DenseReparameterization(
        3,
        kernel_regularizer=regularizer,
        bias_regularizer=regularizer,
        num_train_examples=NUM_TRAIN_EXAMPLES,
        dtype=dtype,
        **others,
    )
    layer.build((None, 4))
    return layer_case.spread(layer)


def log_ratio(draw, loc, scale, arguments=MIXTURE):
    """Computes `log q(w) - log p(w)` by hand, element by element."""
    mixture_weight, scale_1, scale_2 = arguments
    prior = np.logaddexp(
        math.log(mixture_weight) + stats.norm(0.0, scale_1).logpdf(draw),
        math.log(1.0 - mixture_weight) + stats.norm(0.0, scale_2).logpdf(draw),
    )
    return stats.norm(loc, scale).logpdf(draw) - prior


def kl_of_draws(layer, outputs):
    """Computes the estimate of a layer's KL from its outputs, nats."""
    outputs = np.array(outputs)
    draws = outputs[:4] - outputs[4], outputs[4]
    return sum(
        np.sum(log_ratio(draw, np.array(weight.loc), np.array(weight.scale)))
        for draw, weight in zip(draws, layer.variational_weights, strict=True)
    )


def kl_in(losses):
    return NUM_TRAIN_EXAMPLES * layer_case.total(losses)


# The divergence at a draw.


def test_kl_at_a_draw_is_the_log_ratio_summed_over_the_tensor(rng):
    loc, scale = rng.normal(size=(6, 5)), rng.uniform(0.1, 2.0, size=(6, 5))
    draw = rng.normal(size=(6, 5))
    kl = regularizers.ScaleMixtureKL(*MIXTURE)(loc, scale, draw=draw)
    assert kl.shape == []
    assert kl.dtype == "float64"
    np.testing.assert_allclose(
        kl, np.sum(log_ratio(draw, loc, scale)), rtol=1e-12
    )


def test_it_needs_a_draw_and_has_no_gaussian_prior():
    regularizer = regularizers.ScaleMixtureKL()
    assert regularizer.needs_draw
    with pytest.raises(ValueError, match="needs a draw of the posterior"):
        regularizer(np.zeros(3), np.ones(3))
    message = "The prior of ScaleMixtureKL is not Gaussian"
    with pytest.raises(ValueError, match=message):
        regularizer.prior(np.zeros(3), np.ones(3))


# The draw of the forward pass.


def test_losses_are_those_of_the_draw_that_the_outputs_have():
    layer = build()
    outputs = layer(INPUTS)
    np.testing.assert_allclose(
        kl_in(layer.losses), kl_of_draws(layer, outputs), rtol=1e-10
    )


def test_a_traced_step_has_the_same_draw_in_its_outputs_and_losses():
    layer = build()

    @tf.function
    def step():
        return layer(INPUTS), layer.losses

    found = []
    for _ in range(3):
        outputs, losses = step()
        np.testing.assert_allclose(
            kl_in(losses), kl_of_draws(layer, outputs), rtol=1e-10
        )
        found.append(kl_in(losses))
    assert len(set(found)) == 3


def test_of_two_calls_the_last_draw_counts_and_counts_once():
    layer = build()
    layer(INPUTS)
    outputs = layer(INPUTS)
    expected = kl_of_draws(layer, outputs)
    np.testing.assert_allclose(kl_in(layer.losses), expected, rtol=1e-10)
    # It is used up.
    assert abs(kl_in(layer.losses) - expected) > 1e-3


def test_the_draw_is_differentiated_along_with_the_outputs():
    layer = build()
    kernel, _ = layer.variational_weights
    with tf.GradientTape() as tape:
        outputs = layer(INPUTS)
        loss = keras.ops.sum(layer.losses[0])
    gradient = tape.gradient(loss, kernel.loc.value)
    # Along `w = loc + scale e` the posterior's density does not change.
    draw = np.array(outputs)[:4] - np.array(outputs)[4]
    weight, scale_1, scale_2 = MIXTURE
    densities = np.array(
        [
            weight * stats.norm(0.0, scale_1).pdf(draw),
            (1.0 - weight) * stats.norm(0.0, scale_2).pdf(draw),
        ]
    )
    part = densities / densities.sum(axis=0)
    expected = draw * (part[0] / scale_1**2 + part[1] / scale_2**2)
    np.testing.assert_allclose(
        gradient, expected / NUM_TRAIN_EXAMPLES, rtol=1e-8, atol=1e-10
    )


class TakenBack:
    """A loss that takes back the KL of the draw behind the outputs."""

    def __init__(self, layer):
        self.layer = layer
        self.traces = 0

    def __call__(self, y_true, y_pred):
        self.traces += 1
        draws = y_pred[:4] - y_pred[4], y_pred[4]
        kl = sum(
            weight.regularizer(
                keras.ops.convert_to_tensor(weight.loc),
                weight.scale,
                draw=draw,
            )
            for draw, weight in zip(
                draws, self.layer.variational_weights, strict=True
            )
        )
        return -kl / NUM_TRAIN_EXAMPLES + 0.0 * y_true[:, 0]


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_training_sees_one_draw_and_is_traced_once(jit_compile):
    layer = build(dtype="float32")
    model = keras.Sequential([keras.Input((4,)), layer])
    loss = TakenBack(layer)
    model.compile(keras.optimizers.SGD(0.0), loss, jit_compile=jit_compile)
    x, y = INPUTS.astype("float32"), np.zeros((5, 1), "float32")
    # Not a small sum because all of it is.
    assert abs(kl_in(model.losses)) > 10.0
    arguments = {"batch_size": 5, "shuffle": False, "verbose": 0}
    losses = model.fit(x, y, epochs=1, **arguments).history["loss"]
    traces = loss.traces
    losses += model.fit(x, y, epochs=4, **arguments).history["loss"]
    assert loss.traces == traces
    np.testing.assert_allclose(losses, 0.0, atol=2e-3)
    # A tensor of a trace is of no use, and no harm, outside of it.
    assert np.isfinite(kl_in(model.losses))


@pytest.mark.slow
def test_other_traces_leave_nothing_behind_that_harms():
    layer = build(dtype="float32")
    model = keras.Sequential([keras.Input((4,)), layer])
    model.compile(
        keras.optimizers.SGD(0.0), TakenBack(layer), jit_compile=False
    )
    x, y = INPUTS.astype("float32"), np.zeros((5, 1), "float32")
    model.predict(x, verbose=0)
    assert np.isfinite(kl_in(model.losses))
    loss = model.evaluate(x, y, batch_size=5, verbose=0)
    np.testing.assert_allclose(loss, 0.0, atol=2e-3)
    assert np.isfinite(kl_in(model.losses))


# Without a forward pass.


def moments(loc, scale, arguments):
    """Integrates the log ratio: its mean, the KL, and its deviation."""
    noise = np.linspace(-12.0, 12.0, 200001)
    density = stats.norm.pdf(noise)
    density /= density.sum()
    ratios = log_ratio(loc + scale * noise, loc, scale, arguments)
    mean = np.sum(density * ratios)
    return mean, np.sqrt(np.sum(density * np.square(ratios - mean)))


def averages(loc, scale, arguments, readings=20, width=5000):
    """Reads the losses of a layer of equal weights, nats a weight."""
    layer = layers.DenseReparameterization(
        width,
        use_bias=False,
        kernel_regularizer=regularizers.ScaleMixtureKL(*arguments),
        num_train_examples=width,
        dtype="float64",
        seed=1,
    )
    layer.build((None, 1))
    shape = (1, width)
    layer.variational_weights[0].assign(
        loc=np.full(shape, loc), scale=np.full(shape, scale)
    )
    return [layer_case.total(layer.losses) for _ in range(readings)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loc", "scale"), [(0.0, 1.0), (0.6, 0.3), (0.05, 0.02)]
)
def test_losses_without_a_call_average_to_the_kl(loc, scale):
    found = averages(loc, scale, MIXTURE)
    kl, stddev = moments(loc, scale, MIXTURE)
    assert len(set(found)) == 20
    # A false alarm in 1e9 runs, of each case.
    statistics.assert_mean(
        found, kl, stddev / math.sqrt(5000), resolves=0.05 * stddev
    )


def test_of_equal_components_is_left_the_gaussian_kl():
    arguments = (0.25, 0.7, 0.7)
    kl, stddev = moments(0.4, 0.2, arguments)
    gaussian = regularizers.GaussianKL(0.7)(np.float64([0.4]), [0.2])
    np.testing.assert_allclose(kl, gaussian, rtol=1e-9)
    found = averages(0.4, 0.2, arguments)
    statistics.assert_mean(
        found, gaussian, stddev / math.sqrt(5000), resolves=0.05 * stddev
    )


def test_calls_at_the_means_leave_no_draw_behind():
    layer = build()
    expected = kl_of_draws(layer, layer(INPUTS, sample=False))
    found = [kl_in(layer.losses) for _ in range(2)]
    assert found[0] != found[1]
    assert min(abs(np.subtract(found, expected))) > 1e-3


# Layers and arguments.


@pytest.mark.parametrize("name", ["kernel", "bias"])
@pytest.mark.parametrize(
    ("make_layer", "arguments"),
    [
        (layers.DenseFlipout, (2,)),
        (layers.DenseLocalReparameterization, (2,)),
        (layers.Conv1DFlipout, (2, 3)),
        (layers.Conv2DLocalReparameterization, (2, 3)),
        (layers.Conv2DTransposeFlipout, (2, 3)),
        (layers.DepthwiseConv2DFlipout, (3,)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_layers_that_draw_no_weights_are_refused(make_layer, arguments, name):
    argument = f"{name}_regularizer"
    if make_layer is layers.DepthwiseConv2DFlipout and name == "kernel":
        argument = "depthwise_regularizer"
    message = (
        f"`{argument}` ScaleMixtureKL .*{make_layer.__name__} draws no "
        "weights.*Reparameterization"
    )
    for regularizer in (regularizers.ScaleMixtureKL(), "scale_mixture_kl"):
        with pytest.raises(ValueError, match=message):
            make_layer(*arguments, **{argument: regularizer})


@pytest.mark.parametrize("arguments", [(), (0.25, 2, np.float32(0.5))])
def test_config_survives_a_round_trip(arguments):
    regularizer = regularizers.ScaleMixtureKL(*arguments)
    config = keras.saving.serialize_keras_object(regularizer)
    assert config["registered_name"] == "tfp_refine>ScaleMixtureKL"
    restored = keras.saving.deserialize_keras_object(config)
    assert type(restored) is regularizers.ScaleMixtureKL
    mixture_weight, scale_1, scale_2 = arguments or (0.5, 1.0, math.exp(-6.0))
    assert restored.get_config() == {
        "mixture_weight": mixture_weight,
        "scale_1": scale_1,
        "scale_2": scale_2,
    }


@pytest.mark.parametrize("value", [0, 1, 1.0, -0.1, 1.5, float("nan"), "a"])
def test_mixture_weight_that_is_no_proportion_is_rejected(value):
    message = r"`mixture_weight` must be in \(0, 1\).*Received: mixture_weight="
    with pytest.raises(ValueError, match=message):
        regularizers.ScaleMixtureKL(value)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), True, "1", None])
@pytest.mark.parametrize("name", ["scale_1", "scale_2"])
def test_scale_that_is_no_positive_number_is_rejected(name, value):
    message = f"`{name}` must be a positive finite.*Received: {name}="
    with pytest.raises(ValueError, match=message):
        regularizers.ScaleMixtureKL(**{name: value})
