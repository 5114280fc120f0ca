import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import bayesian_linear
from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import models
from tfp_refine import regularizers

CONVOLUTIONS = [
    (layers.Conv2DFlipout, {"filters": 6, "kernel_size": (3, 2)}),
    (layers.Conv2DFlipout, {"filters": 6, "kernel_size": 2, "groups": 2}),
    (layers.Conv2DTransposeFlipout, {"filters": 6, "kernel_size": 3}),
    (
        layers.DepthwiseConv2DFlipout,
        {"depth_multiplier": 2, "kernel_size": 3},
    ),
    (layers.Conv2DMNF, {"filters": 3, "kernel_size": 2}),
    (layers.DenseFlipout, {"units": 6}),
]
every_layer = pytest.mark.parametrize(("make_layer", "arguments"), CONVOLUTIONS)


def initialized(make, make_layer, arguments):
    """Returns a layer of images of four channels, initialized."""
    inputs = keras.Input((5, 5, 4))
    layer = make_layer(**arguments, seed=1)
    model = keras.Model(inputs, layer(inputs))
    for weight in layer.variational_weights:
        weight.loc.assign(np.ones(weight.loc.shape))
    assert make(seed=0, verbose=False)(model) is model
    return layer


def fans(make_layer, arguments):
    """Returns the value of Keras, with the fan-out of a group."""
    positions = np.prod(np.broadcast_to(arguments.get("kernel_size", 1), 2))
    if make_layer is layers.DenseFlipout:
        positions = 1
    if make_layer is layers.DepthwiseConv2DFlipout:
        return positions, 2 * positions
    groups = arguments.get("groups", 1)
    units = arguments.get("filters", arguments.get("units"))
    return 4 // groups * positions, units // groups * positions


# Variances.


@pytest.mark.slow
@every_layer
@pytest.mark.parametrize(
    ("make", "variance", "is_zero"),
    [
        (initializers.Heuristic, lambda n, m: 1.0 / n, True),
        (initializers.XavierNormal, lambda n, m: 2.0 / (n + m), True),
        (initializers.Orthogonal, lambda n, m: 2.0 / n, False),
    ],
    ids=["heuristic", "xavier", "orthogonal"],
)
def test_rivals_have_their_variances(
    make, variance, is_zero, make_layer, arguments
):
    layer = initialized(make, make_layer, arguments)
    expected = variance(*fans(make_layer, arguments))
    kernel, bias = layer.variational_weights
    for weight in (kernel, bias):
        np.testing.assert_allclose(weight.scale**2, expected, rtol=1e-5)
    np.testing.assert_array_equal(bias.loc, 0.0)
    assert np.all(np.asarray(kernel.loc) == 0.0) == is_zero


def test_the_fans_are_those_that_keras_computes():
    layer = layers.Conv2DFlipout(200, 3)
    inputs = keras.Input((5, 5, 100))
    model = keras.Model(inputs, layer(inputs))
    initializers.XavierNormal(verbose=False)(model)
    draw = keras.initializers.GlorotNormal(seed=0)(layer.kernel.shape)
    variance = float(layer.variational_weights[0].scale[0, 0, 0, 0]) ** 2
    # 180000 numbers: within 3% but for 1e-12, 7 standard deviations.
    np.testing.assert_allclose(np.var(draw), variance, rtol=0.03)


# Orthogonal means.


@every_layer
def test_columns_are_orthonormal_or_else_rows(make_layer, arguments):
    layer = initialized(initializers.Orthogonal, make_layer, arguments)
    weight = layer.variational_weights[0]
    columns = np.asarray(layer.columns(weight.mean("float32")), np.float64)
    if columns.shape[0] < columns.shape[1]:
        columns = columns.T
    np.testing.assert_allclose(
        columns.T @ columns, np.eye(columns.shape[1]), atol=1e-5
    )


def test_layers_have_orthogonal_means_of_their_own():
    model = models.MLP((6,), 6, hidden=(6,), seed=1)
    initializers.Orthogonal(seed=0, verbose=False)(model)
    first, second = (np.asarray(layer.kernel) for layer in model.layers[1:])
    assert np.mean(np.isclose(first, second)) < 0.5


# Biases without a posterior.


@pytest.mark.parametrize(
    "make",
    [
        initializers.Heuristic,
        initializers.Orthogonal,
        initializers.XavierNormal,
    ],
)
def test_biases_without_a_posterior_are_zero(make):
    inputs = keras.Input((4,))
    layer = layers.DenseFlipout(
        3, bias_posterior=None, bias_regularizer=None, bias_initializer="ones"
    )
    make(verbose=False)(keras.Model(inputs, layer(inputs)))
    np.testing.assert_array_equal(layer.bias, np.zeros(3))


# Posteriors that are their priors.


@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0, "fan_in", "he"])
@pytest.mark.parametrize(
    ("make_layer", "arguments"),
    [(v, a) for v, a in CONVOLUTIONS if v is not layers.Conv2DMNF],
)
def test_uninformative_posteriors_have_no_divergence(
    scale, make_layer, arguments
):
    prefix = "kernel"
    if make_layer is layers.DepthwiseConv2DFlipout:
        prefix = "depthwise"
    arguments = {
        f"{prefix}_regularizer": regularizers.GaussianKL(scale),
        "bias_regularizer": regularizers.GaussianKL(scale),
        "dtype": "float64",
        **arguments,
    }
    layer = initialized(initializers.Uninformative, make_layer, arguments)
    for weight in layer.variational_weights:
        np.testing.assert_allclose(weight.kl(), 0.0, atol=1e-12)
        np.testing.assert_array_equal(weight.loc, 0.0)
        np.testing.assert_allclose(
            weight.scale**2, _variance(scale, make_layer, arguments), rtol=1e-10
        )


def _variance(scale, make_layer, arguments):
    fan_in, _ = fans(make_layer, arguments)
    gains = {"fan_in": 1.0 / fan_in, "he": 2.0 / fan_in}
    return gains[scale] if isinstance(scale, str) else scale**2


@pytest.mark.parametrize(
    ("regularizer", "message"),
    [
        (None, "has no prior"),
        (regularizers.CollapsedMeanVarianceKL(), "not Gaussian"),
        (regularizers.LogUniformKL(), "not Gaussian"),
    ],
)
@pytest.mark.parametrize("name", ["kernel", "bias"])
def test_uninformative_posteriors_need_a_gaussian_prior(
    regularizer, message, name
):
    inputs = keras.Input((4,))
    first = layers.DenseFlipout(3, name="first")
    second = layers.DenseFlipout(3, **{f"{name}_regularizer": regularizer})
    model = keras.Model(inputs, second(first(inputs)))
    before = [np.array(v) for v in model.variables]
    with pytest.raises(ValueError, match=message):
        initializers.Uninformative(verbose=False)(model)
    for one, other in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(one, other)


# Unit variances.


def lsuv_model(**arguments):
    """Returns a model with operations between layers."""
    inputs = keras.Input((8, 8, 2))
    make = layers.Conv2DReparameterization
    x = make(8, 3, activation="relu", seed=1, **arguments)(inputs)
    x = keras.layers.MaxPooling2D()(x)
    x = make(8, 2, activation="tanh", seed=2, **arguments)(x)
    x = keras.layers.Flatten()(x)
    x = layers.DenseReparameterization(10, "relu", seed=3, **arguments)(x)
    outputs = layers.DenseReparameterization(2, seed=4, **arguments)(x)
    return keras.Model(inputs, outputs)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_pre_activations_have_unit_variance_at_the_means(scale, rng):
    x = scale * rng.normal(size=(200, 8, 8, 2)) + scale
    model = lsuv_model()
    made = initializers.LSUV(seed=0, verbose=False)
    assert made(model, x.astype("float32")) is model
    seen = []
    with (
        layers.mean_weights(),
        layers.observe_inputs(lambda *call: seen.append(call)),
    ):
        model(x.astype("float32"))
    assert len(seen) == 4
    for layer, inputs in seen:
        # All 200 examples are in each batch.
        variance = np.var(np.asarray(layer.mean_outputs(inputs)))
        assert abs(variance - 1.0) < 0.1
        fan_in = layer.columns(layer.kernel).shape[0]
        for weight in layer.variational_weights:
            np.testing.assert_allclose(weight.scale**2, 2.0 / fan_in, rtol=1e-5)


def test_scaled_means_keep_their_directions(rng):
    x = rng.normal(size=(300, 6)).astype("float32")
    model = models.MLP((6,), 4, hidden=(), seed=1)
    initializers.LSUV(seed=0, verbose=False)(model, 5.0 * x)
    mean, _ = bayesian_linear.read(model.layers[1])
    gram = mean[:-1].T @ mean[:-1]
    np.testing.assert_allclose(gram / gram[0, 0], np.eye(4), atol=1e-5)
    # The variance of the inputs is 25: 1 / 25, but for a tenth and the draws.
    np.testing.assert_allclose(gram[0, 0], 1.0 / 25.0, rtol=0.3)


def test_tolerance_and_iterations_are_obeyed(rng):
    x = 1.2 * rng.normal(size=(300, 6)).astype("float32")
    for tolerance, is_scaled in ((5.0, False), (0.01, True)):
        model = models.MLP((6,), 4, hidden=(), seed=1)
        initializers.LSUV(tolerance=tolerance, seed=0, verbose=False)(model, x)
        norms = np.linalg.norm(model.layers[1].kernel, axis=0)
        assert np.allclose(norms, 1.0, atol=1e-5) == (not is_scaled)


@pytest.mark.parametrize("x", [np.zeros([20, 6]), np.full([20, 6], 1e30)])
def test_outputs_that_do_not_vary_are_refused(x):
    model = models.MLP((6,), 4, hidden=(5,), seed=1)
    before = [np.array(v) for v in model.variables]
    with pytest.raises(ValueError, match="'hidden_0' must vary.*variance"):
        initializers.LSUV(verbose=False)(model, x)
    for one, other in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(one, other)


def test_unit_variances_need_inputs():
    model = models.MLP((6,), 4, hidden=(5,), seed=1)
    with pytest.raises(ValueError, match="LSUV needs.*x=None"):
        initializers.LSUV(verbose=False)(model)


def test_unit_variances_need_no_targets(rng):
    x = rng.normal(size=(40, 6)).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices(x).batch(7)

    def weights(data):
        model = models.MLP((6,), 4, hidden=(5,), seed=1)
        initializers.LSUV(seed=0, verbose=False)(model, data)
        return model.get_weights()

    expected = weights(x)
    for data in (
        dataset,
        iter(dataset),
        dataset.map(lambda rows: (rows, 1.0 * rows)),
    ):
        for one, other in zip(weights(data), expected, strict=True):
            np.testing.assert_array_equal(one, other)
