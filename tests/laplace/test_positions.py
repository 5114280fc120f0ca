"""Laplace's approximation of heads of tokens, of pixels, and inside models."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine
from tfp_refine import ensembles
from tfp_refine import laplace
from tfp_refine import sampling

L = keras.layers


@pytest.fixture(autouse=True)
def _double():
    keras.config.set_dtype_policy("float64")
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")


def tagger(num_classes=3, **head):
    """Returns a model of a class for each token, with padding, and inputs."""
    inputs = keras.Input((4,), dtype="int32")
    hidden = L.Embedding(6, 3, mask_zero=True)(inputs)
    hidden = L.SimpleRNN(2, return_sequences=True)(hidden)
    model = keras.Model(
        inputs, L.Dense(num_classes, name="head", **head)(hidden)
    )
    x = np.array([[1, 2, 0, 0], [3, 1, 4, 5], [2, 0, 0, 0]] * 3, "int32")
    return scrambled(model), x


def segmenter(num_classes=3, kernel_size=1, **head):
    """Returns a model of a class for each pixel, and inputs."""
    model = keras.Sequential(
        [
            keras.Input((3, 2, 2)),
            L.Conv2D(2, 2, padding="same", activation="tanh"),
            L.Conv2D(num_classes, kernel_size, name="head", **head),
        ]
    )
    return scrambled(model), images()


def averaged(**head):
    """Returns a model of one class for all pixels, and inputs."""
    inputs = keras.Input((3, 2, 2))
    hidden = L.Conv2D(2, 2, padding="same", activation="tanh")(inputs)
    hidden = L.Conv2D(3, 1, name="head", **head)(hidden)
    model = keras.Model(inputs, L.GlobalAveragePooling2D()(hidden))
    return scrambled(model), images()


def flattened():
    """Returns a model whose head is a convolution of one pixel, and inputs."""
    inputs = keras.Input((3, 2, 2))
    hidden = L.GlobalAveragePooling2D(keepdims=True)(inputs)
    hidden = L.Conv2D(3, 1, name="head")(hidden)
    model = keras.Model(inputs, L.Softmax()(L.Flatten()(hidden)))
    return scrambled(model), images()


def einsum(equation="...a,ab->...b", bias_axes="b", shape=3):
    """Returns a model of a class for each row, by an einsum, and inputs."""
    model = keras.Sequential(
        [
            keras.Input((3, 4)),
            L.EinsumDense(equation, shape, bias_axes=bias_axes, name="head"),
        ]
    )
    return scrambled(model), images().reshape(8, 3, 4)


def nested():
    """Returns a model with its head inside a model inside, and inputs."""
    inner = keras.Sequential(
        [keras.Input((2,)), L.Dense(3, "tanh"), L.Dense(3, name="head")],
        name="inner",
    )
    inputs = keras.Input((3, 2, 2))
    pooled = L.GlobalAveragePooling2D()(inputs)
    return scrambled(keras.Model(inputs, inner(pooled))), images()


def images():
    return np.random.default_rng(2).normal(size=(8, 3, 2, 2))


def scrambled(model):
    rng = np.random.default_rng(1)
    for variable in model.weights:
        variable.assign(rng.normal(size=variable.shape))
    return model


def head_of(model):
    layers = list(model._flatten_layers(include_self=False))
    return next(layer for layer in layers if layer.name == "head")


def jacobian(model, x):
    """Differentiates logits in kernel and bias, `[N, ..., C, C * (F + 1)]`.

    In the order of a matrix `[C, F + 1]`.
    """
    head = head_of(model)
    with tf.GradientTape() as tape:
        outputs = model(x)
        if any(isinstance(layer, L.Softmax) for layer in model.layers):
            outputs = tf.math.log(outputs)  # up to a constant of each row
    kernel, bias = tape.jacobian(outputs, [head.kernel, head.bias])
    lead, num_classes = outputs.shape[:-1], outputs.shape[-1]
    kernel = np.reshape(kernel, (*lead, num_classes, -1, num_classes))
    bias = np.reshape(bias, (*lead, num_classes, 1, num_classes))
    both = np.concatenate([kernel, bias], axis=-2)
    both = np.swapaxes(both, -1, -2).reshape(*lead, num_classes, -1)
    return outputs.numpy(), both


def hessian_of(logits, of_logits, weights):
    """Sums generalized Gauss-Newton matrices of softmax outputs by hand."""
    size = of_logits.shape[-1]
    total = np.zeros((size, size))
    for row, derivative, weight in zip(
        logits.reshape(-1, logits.shape[-1]),
        of_logits.reshape(-1, *of_logits.shape[-2:]),
        np.ravel(weights),
        strict=True,
    ):
        probs = np.exp(row - row.max())
        probs /= probs.sum()
        middle = np.diag(probs) - np.outer(probs, probs)
        total += weight * derivative.T @ middle @ derivative
    return total


def fit(model, *data, hessian="full", **given):
    made = laplace.LastLayerLaplace(model, "classification", hessian)
    return made.fit(*data, verbose=0, **given)


_MODELS = {
    "tokens": tagger,
    "pixels": segmenter,
    "averaged": averaged,
    "flattened": flattened,
    "einsum": einsum,
    "nested": nested,
}


def problem(name):
    """Returns a model, its data, and which outputs count, `[N, ...]`."""
    model, x = _MODELS[name]()
    lead = model(x).shape[:-1]
    y = np.random.default_rng(3).integers(0, 3, size=lead)
    counts = x > 0 if name == "tokens" else np.ones(lead, bool)
    return model, x, np.where(counts, y, -1), counts


@pytest.mark.slow
@pytest.mark.parametrize("name", _MODELS)
def test_the_precision_is_that_of_brute_force(name):
    model, x, y, counts = problem(name)
    posterior = fit(model, x, y)
    logits, of_logits = jacobian(model, x)
    expected = hessian_of(logits, of_logits, counts)
    size = len(expected)
    np.testing.assert_allclose(
        posterior.covariance.matrix(-2), expected + np.eye(size), atol=1e-9
    )
    # The evidence is that of the outputs that count.
    theta = posterior.loc
    log_probs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    chosen = np.take_along_axis(
        log_probs, np.maximum(y, 0)[..., np.newaxis], axis=-1
    )
    joint = np.sum(chosen[..., 0] * counts) - 0.5 * theta @ theta
    _, log_det = np.linalg.slogdet(expected + np.eye(size))
    np.testing.assert_allclose(
        posterior.log_marginal_likelihood(), joint - 0.5 * log_det
    )
    # The covariance of outputs, at each position.
    mean, covariance = posterior.linearized_outputs(x, batch_size=3)
    inverse = np.linalg.inv(expected + np.eye(size))
    shift = mean - logits  # of log probabilities, in place of logits
    np.testing.assert_allclose(shift, shift[..., :1] + 0.0 * shift, atol=1e-9)
    if name != "flattened":
        np.testing.assert_allclose(
            covariance, of_logits @ inverse @ np.swapaxes(of_logits, -1, -2)
        )


@pytest.mark.slow
@pytest.mark.parametrize("hessian", ["kron", "diag"])
@pytest.mark.parametrize("name", ["tokens", "pixels"])
def test_approximations_are_those_of_positions_as_examples(name, hessian):
    model, x, y, counts = problem(name)
    found = fit(model, x, y, hessian=hessian)
    before = keras.Model(model.inputs[0], head_of(model).input)
    features = before(x).numpy()[counts]
    flat = keras.Sequential([keras.Input(features.shape[1:]), L.Dense(3)])
    kernel, bias = head_of(model).get_weights()
    flat.layers[0].set_weights([kernel.reshape(-1, 3), bias])
    expected = fit(flat, features, y[counts], hessian=hessian)
    for one, other in zip(
        found.hessian.arrays().values(),
        expected.hessian.arrays().values(),
        strict=True,
    ):
        np.testing.assert_allclose(np.abs(one), np.abs(other), atol=1e-8)
    np.testing.assert_allclose(
        found.log_marginal_likelihood(), expected.log_marginal_likelihood()
    )


@pytest.mark.slow
def test_weights_are_of_examples_or_of_positions(rng):
    model, x, y, counts = problem("tokens")
    of_examples = rng.integers(0, 3, len(x)).astype(float)
    of_positions = np.broadcast_to(of_examples[:, np.newaxis], y.shape)
    logits, of_logits = jacobian(model, x)
    expected = hessian_of(logits, of_logits, counts * of_positions)
    for weight in (of_examples, of_positions):
        posterior = fit(model, x, y, sample_weight=weight)
        np.testing.assert_allclose(
            posterior.covariance.matrix(-2) - np.eye(len(expected)),
            expected,
            atol=1e-9,
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "tokens" else pytest.mark.slow)
        for name in _MODELS
    ],
)
def test_predictions_are_of_all_positions(name, tmp_path):
    model, x, y, _ = problem(name)
    posterior = fit(model, x, y)
    expected = None
    for method in ("mc", "linearized", "probit", "mean_field"):
        found = posterior.predict_proba(x, 3000, method=method, seed=1)
        assert found.shape == model(x).shape
        np.testing.assert_allclose(found.sum(axis=-1), 1.0, rtol=1e-6)
        expected = found if expected is None else expected
        atol = 0.05 if method == "linearized" else 0.15
        np.testing.assert_allclose(found, expected, atol=atol)
    posterior.save(tmp_path / "a.posterior")
    loaded = tfp_refine.load_posterior(tmp_path / "a.posterior")
    np.testing.assert_array_equal(
        loaded.predict_proba(x, 9, seed=1),
        posterior.predict_proba(x, 9, seed=1),
    )
    loaded.set_data(x, y)
    np.testing.assert_allclose(loaded.elbo(9), posterior.elbo(9))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The chains have not mixed")
@pytest.mark.parametrize("name", ["tokens", "averaged"])
def test_flows_and_chains_know_what_counts(name):
    model, x, y, _ = problem(name)
    posterior = fit(model, x, y)
    posterior.optimize_prior_precision(
        "grid_search", validation_data=(x, y), grid=[0.3, 1.0], verbose=0
    )
    flow = posterior.refine(epochs=2, flow_length=1, seed=1, verbose=0)
    chains = sampling.nuts(
        posterior, num_chains=2, num_warmup=20, num_samples=20, verbose=0
    )
    for one in (flow, chains):
        assert one.predict_proba(x, 20, seed=1).shape == model(x).shape
        assert one.summarize(x, 20).entropy.shape == model(x).shape[:-1]
    assert flow.elbo(200).mean() > posterior.elbo(200).mean() - 1.0


def test_it_says_which_layer_it_found():
    for name, kind in (("tokens", "Dense"), ("pixels", "Conv2D")):
        model, *_ = problem(name)
        text = repr(laplace.LastLayerLaplace(model, "classification"))
        assert f"layer='head: {kind}, 2 features to 3 outputs'" in text
    model, *_ = problem("nested")
    text = repr(laplace.LastLayerLaplace(model, "classification"))
    assert "layer='inner/head: Dense, 3 features to 3 outputs'" in text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: segmenter(kernel_size=2), r"'head'.*kernel_size=\(2, 2\)"),
        (lambda: segmenter(strides=2), r"'head'.*strides=\(2, 2\)"),
        (lambda: segmenter(4, groups=2), "'head'.*groups=2"),
        (lambda: tagger(activation="relu"), "Received: relu"),
        (
            lambda: einsum("abc,bcd->abd", "d", (3, 3)),
            "'head'.*equation='abc,bcd->abd'",
        ),
        (
            lambda: einsum("abc,cd->abd", "bd", (3, 3)),
            "'head'.*bias_axes='bd'",
        ),
    ],
)
def test_other_heads_are_refused(make, message):
    model, _ = make()
    with pytest.raises(ValueError, match=message):
        laplace.LastLayerLaplace(model, "classification")


def test_bad_data_of_positions_are_refused():
    model, x, y, _ = problem("tokens")
    for bad, message in (
        ({"y": y[:, 0]}, r"a target for each position, \(9, 4\).*\(9,\)"),
        ({"y": np.where(x > 0, 7, -1)}, r"class numbers in \[0, 3\)"),
        ({"sample_weight": np.ones((9, 3))}, r"\(9, 4\).*shape \(9, 3\)"),
        ({"x": 0 * x}, "must not all be masked.*36 positions"),
    ):
        given = {"x": x, "y": y} | bad
        with pytest.raises(ValueError, match=message):
            fit(model, given.pop("x"), given.pop("y"), **given)
    with pytest.raises(ValueError, match=r"one vector.*positions of .*\(4,\)"):
        laplace.DiagonalLaplace(model, "classification").fit(x, y)
    with pytest.raises(ValueError, match="one vector"):
        ensembles.TemperatureScaling(model).fit(x, y)


def test_an_activation_before_the_average_is_refused():
    model, x = averaged(activation="softmax")
    with pytest.raises(ValueError, match="'head'.*something else"):
        fit(model, x, np.zeros(len(x)))
