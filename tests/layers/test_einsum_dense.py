import functools
import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import tfp_refine as tfr
from tests.support import layer_contract
from tests.support import statistics
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import regularizers

NUM_DRAWS = 20000
KINDS = (
    layers.EinsumDenseReparameterization,
    layers.EinsumDenseLocalReparameterization,
    layers.EinsumDenseFlipout,
)
LOCAL, FLIPOUT = KINDS[1:]
# Equation, output shape, axes of the bias, and shape of two examples.
EQUATIONS = {
    "dense": ("ab,bc->ac", 3, "c", (2, 4)),
    "tokens": ("abc,cd->abd", (2, 3), "d", (2, 2, 4)),
    "ellipsis_left": ("...x,xy->...y", 3, "y", (2, 2, 4)),
    "ellipsis_right": ("ab...,bc->ac...", 3, "c", (2, 4, 2)),
    "heads": ("abc,cde->abde", (None, 2, 3), "de", (2, 2, 4)),
    "heads_together": ("abcd,cde->abe", (None, 2), "e", (2, 2, 2, 3)),
    "each_head": ("abc,bcd->abd", (2, 3), "bd", (2, 2, 4)),
    "each_token": ("abc,bd->abcd", (2, 3, 2), "d", (2, 2, 3)),
    "sum_over_tokens": ("abc,cd->ad", (2,), "d", (2, 3, 4)),
    "traces": ("abbc,cd->ad", (2,), None, (2, 3, 3, 2)),
    "outer": ("abc,d->adbc", (2, 2, 3), "d", (2, 2, 3)),
    "one_output": ("ab,b->a", (), None, (2, 4)),
    "token_biases": ("abc,cd->abd", (2, 3), "b", (2, 2, 4)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_equation = pytest.mark.parametrize("name", EQUATIONS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] * ("Flipout" not in name))
        for kind in KINDS
        for name in [getattr(kind, "__name__", str(kind))]
    ],
)
def test_it_keeps_the_contract_of_the_layers(kind):
    layer_contract.check_layer(
        functools.partial(
            kind,
            "abcd,cde->abe",
            (3, 4),
            activation="tanh",
            bias_axes="e",
            kernel_regularizer=regularizers.GaussianKL(2.0),
            bias_regularizer=regularizers.GaussianKL(0.5),
            kernel_posterior=layers.MeanFieldPosterior(0.3),
            bias_posterior=layers.MeanFieldPosterior(0.4),
        ),
        (3, 2, 3),
        keras.layers.EinsumDense,
        under_xla=False,
    )


def built(kind, name, **arguments):
    """Returns a layer of an equation, far from its start, and inputs."""
    equation, output_shape, bias_axes, shape = EQUATIONS[name]
    arguments = {"bias_axes": bias_axes, "num_train_examples": 1} | arguments
    layer = kind(equation, output_shape, seed=3, **arguments)
    layer.build(shape)
    rng = np.random.default_rng(4)
    for weight in layer.variational_weights:
        weight.loc.assign(rng.normal(size=weight.loc.shape))
        if weight.has_free_scales:
            weight.assign(scale=rng.uniform(0.3, 1.5, weight.loc.shape))
    x = rng.normal(1.0, 0.7, size=shape).astype(layer.compute_dtype)
    return layer, x


@pytest.mark.slow
@every_kind
@every_equation
def test_at_the_means_it_is_the_layer_of_keras_to_the_last_bit(kind, name):
    layer, x = built(kind, name, kernel_initializer="he_normal")
    twin = keras.layers.EinsumDense(*EQUATIONS[name][:2], None, layer.bias_axes)
    twin.build(x.shape)
    twin.set_weights([w.loc for w in layer.weight_tensors])
    outputs = layer(x, sample=False)
    np.testing.assert_array_equal(outputs, twin(x))
    assert layer(x).shape == outputs.shape
    shape = layer.compute_output_shape(x.shape)
    assert shape == twin.compute_output_shape(x.shape)


def matrix(layer, x):
    """Returns each weight's part in each output, `[N, W]`, by brute force.

    The map is linear in the weights: these are the outputs of Keras' layer for
    weights that are 1 at one place.
    """
    twin = keras.layers.EinsumDense.from_config(
        {
            name: layer.get_config()[name]
            for name in ("equation", "output_shape", "bias_axes", "dtype")
        }
    )
    twin.build(x.shape)
    shapes = [variable.shape for variable in twin.weights]
    columns = []
    for which, shape in enumerate(shapes):
        for one_hot in np.eye(int(np.prod(shape))):
            values = [np.zeros(shape) for shape in shapes]
            values[which] = np.reshape(one_hot, shape)
            twin.set_weights(values)
            columns.append(np.ravel(twin(x)))
    return np.stack(columns, axis=1)


def flat(layer, attribute):
    """Returns means or scales of all weights, `[W]`."""
    return np.concatenate(
        [np.ravel(getattr(w, attribute)) for w in layer.variational_weights]
    )


@pytest.mark.slow
@every_equation
def test_local_variances_are_the_einsum_of_variances(name, monkeypatch):
    layer, x = built(LOCAL, name, dtype="float64")
    monkeypatch.setattr(
        "tfp_refine.layers.noise.standard_normal",
        lambda shape, dtype, seed: keras.ops.ones(shape, dtype),
    )
    mean = np.ravel(layer(x, sample=False))
    stddev = np.ravel(layer(x)) - mean
    weights = matrix(layer, x)
    np.testing.assert_allclose(mean, weights @ flat(layer, "loc"), rtol=1e-12)
    np.testing.assert_allclose(
        stddev**2, weights**2 @ flat(layer, "scale") ** 2, rtol=1e-10
    )


def draws(kind, name):
    """Draws outputs of an equation with an axis more, that of the draws.

    All along this axis have the same posterior. Returns the draws `[S, N]`,
    their exact mean, and the covariance `[N, N]` for one draw of the weights.
    """
    small, x = built(kind, name, dtype="float64")
    equation, output_shape, bias_axes, _ = EQUATIONS[name]
    many = kind(
        re.sub(r"(->(\.\.\.)?\w+)", r"\1S", equation.replace("->", "S->")),
        (*np.atleast_1d(output_shape), NUM_DRAWS)
        if equation[-1] != "."
        else (output_shape, NUM_DRAWS),
        bias_axes=None if bias_axes is None else bias_axes + "S",
        seed=3,
        num_train_examples=1,
    )
    many.build(x.shape)
    for one, other in zip(
        small.variational_weights, many.variational_weights, strict=True
    ):
        # The letter comes last, but before the axes of "...".
        axis = tuple(other.loc.shape).index(NUM_DRAWS)
        shape = np.insert(one.loc.shape, axis, 1)
        other.assign(
            *(
                np.broadcast_to(np.reshape(values, shape), other.loc.shape)
                for values in (one.loc, one.scale)
            )
        )
    outputs = np.asarray(many(x.astype("float32")), "float64")
    outputs = np.moveaxis(outputs, tuple(outputs.shape).index(NUM_DRAWS), 0)
    weights = matrix(small, x)
    mean = weights @ flat(small, "loc")
    covariance = (weights * flat(small, "scale") ** 2) @ weights.T
    return np.reshape(outputs, (NUM_DRAWS, -1)), mean, covariance


# One of each kind of axis; others differ by the parser alone.
@pytest.mark.parametrize(
    "name",
    [
        "heads",
        "heads_together",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in EQUATIONS
            if not name.startswith("heads")
        ),
    ],
)
@every_kind
def test_outputs_have_the_moments_of_the_draws_that_they_share(kind, name):
    outputs, mean, covariance = draws(kind, name)
    variance = np.diag(covariance)
    stddev = np.sqrt(variance)
    statistics.assert_mean(outputs, mean, stddev, resolves=0.1 * stddev)
    statistics.assert_variance(outputs, variance, resolves_ratio=1.15)
    expected = covariance / np.outer(stddev, stddev)
    if kind is LOCAL:
        expected = np.eye(len(mean))
    elif kind is FLIPOUT:  # one draw for each of two examples
        expected *= np.kron(np.eye(2), np.ones([len(mean) // 2] * 2))
    z = (outputs - mean) / stddev
    statistics.assert_mean(
        z[:, :, None] * z[:, None, :], expected, resolves=0.2
    )


@pytest.mark.parametrize("kind", KINDS[::2])
def test_sums_over_tokens_have_the_variance_of_one_draw(kind):
    outputs, _, covariance = draws(kind, "tokens")
    sums = np.sum(np.reshape(outputs, (NUM_DRAWS, 2, 2, 3)), axis=2)
    blocks = np.reshape(covariance, (2, 2, 3, 2, 2, 3))
    expected = np.einsum("btubTu->bu", blocks)
    local = np.sum(np.reshape(np.diag(covariance), (2, 2, 3)), axis=1)
    assert np.min(expected / local) > 1.3  # else both would pass
    statistics.assert_variance(sums, expected, resolves_ratio=1.15)


@every_kind
def test_the_divergence_is_that_of_tfp(kind):
    layer, _ = built(
        kind, "heads", kernel_regularizer=regularizers.GaussianKL(0.7)
    )
    kernel, bias = layer.variational_weights
    expected = sum(
        tf.reduce_sum(
            tfd.kl_divergence(
                tfd.Normal(w.loc.value, w.scale), tfd.Normal(0.0, scale)
            )
        )
        for w, scale in ((kernel, 0.7), (bias, 1.0))
    )
    np.testing.assert_allclose(
        sum(map(float, layer.losses)), expected, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("name", "fan_in"),
    [("heads", 4), ("heads_together", 6), ("each_head", 4), ("outer", 1)],
)
def test_the_prior_counts_the_inputs_of_a_unit(name, fan_in):
    layer, _ = built(
        FLIPOUT, name, kernel_regularizer=regularizers.GaussianKL("fan_in")
    )
    scale = layer.variational_weights[0].prior.scale
    np.testing.assert_allclose(scale, fan_in**-0.5, rtol=1e-6)


@pytest.mark.parametrize("posterior", ["k_tied", "low_rank", "fixed_variance"])
@every_kind
def test_it_takes_every_family_of_posteriors(kind, posterior):
    layer, x = built(
        kind, "heads", kernel_posterior=posterior, bias_posterior=posterior
    )
    kernel, bias = layer.variational_weights
    if posterior == "k_tied":
        # A bias is one row, all of it units.
        assert [f.shape for f in kernel.scale_weights] == [(4, 2), (6, 2)]
        assert [f.shape for f in bias.scale_weights] == [(1, 1), (6, 1)]
    assert np.all(np.isfinite(layer(x)))
    assert np.all(np.isfinite(layer.losses))


@every_equation
def test_products_of_patches_and_columns_are_the_pre_activations(name):
    layer, x = built(FLIPOUT, name, dtype="float64")
    assert layer.has_design_matrix == (
        name not in ("each_token", "token_biases")
    )
    if not layer.has_design_matrix:
        return
    seen = []
    with layers.observe_inputs(lambda _, inputs: seen.append(inputs)):
        outputs = np.asarray(layer(x, sample=False))
    (inputs,) = seen  # summed over axes without weights
    patches = np.asarray(layer.patches(inputs))
    columns = np.asarray(layer.columns(layer.kernel.value))
    assert patches.shape[1] == layer.num_positions(inputs.shape)
    assert len(columns) == layer.fan_in(layer.kernel.shape)
    np.testing.assert_array_equal(layer.kernel_of(columns), layer.kernel)
    blocks = np.split(columns, layer.num_groups, axis=-1)
    found = np.concatenate(
        [patches[:, :, g] @ block for g, block in enumerate(blocks)], axis=-1
    )
    if layer.use_bias:
        found += np.ravel(layer.bias)
    # Positions come before the units, not between them.
    letters = layer._letters
    axes = letters.outputs[0] + letters.positions + letters.units
    outputs = np.einsum(f"{letters.outputs}->{axes}", outputs)
    np.testing.assert_allclose(
        found, np.reshape(outputs, found.shape), rtol=1e-10
    )


@pytest.mark.parametrize("name", ["heads", "heads_together", "each_head"])
def test_units_are_told_apart_and_removed(name):
    layer, x = built(FLIPOUT, name)
    units = layer.columns(layer.kernel).shape[1]
    assert layer.unit_kl().shape == (units,)
    np.testing.assert_allclose(
        np.sum(layer.unit_kl()), sum(map(float, layer.losses)), rtol=1e-5
    )
    layer.remove_units(np.arange(units) == 1)
    outputs = np.asarray(layer(x))
    is_zero = np.all(np.abs(outputs) < 1e-5, axis=0)
    if name != "each_head":
        is_zero = np.all(is_zero, axis=0)
    np.testing.assert_array_equal(np.ravel(is_zero), np.arange(units) == 1)


def test_units_with_several_biases_are_not():
    layer, _ = built(FLIPOUT, "token_biases")
    for function in (layer.unit_kl, lambda: layer.remove_units([True] * 3)):
        with pytest.raises(ValueError, match="share a bias, or have several"):
            function()
    assert layer.unit_signal_to_noise().shape == (3,)


@pytest.mark.parametrize("bias_axes", ["de", "e", None])
def test_initializers_fit_units_that_have_a_bias_each(bias_axes, rng):
    x = rng.normal(size=(60, 3, 4)).astype("float32")
    inputs = keras.Input((3, 4))
    heads = FLIPOUT("abc,cde->abde", (3, 2, 2), "relu", bias_axes, seed=1)
    outputs = FLIPOUT("abcd,bcde->ae", (1,), bias_axes="e", seed=2)
    model = keras.Model(inputs, outputs(heads(inputs)))
    tfr.layers.set_num_train_examples(model, 60)
    initializer = tfr.initializers.IBLM(
        task="regression", noise_variance=0.1, seed=0, verbose=0
    )
    y = np.sum(x, axis=(1, 2))[:, None]
    if bias_axes == "e":
        with pytest.warns(UserWarning, match=f"unknown kind.*{heads.name}"):
            initializer(model, x, y)
    else:
        before = heads.kernel.numpy()
        initializer(model, x, y)
        assert not np.any(heads.kernel == before)
    error = np.mean((tfr.predict(model, x, 1, sample=False)[0] - y) ** 2)
    assert error < 0.5 * np.var(y)


def test_weights_are_those_of_the_mean_field_view():
    layer, x = built(FLIPOUT, "heads")
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, layer(inputs))
    found = functional.variational_weights(model)
    assert found == layer.variational_weights


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (FLIPOUT, ("ab->ab", 3), "`equation` must be of the form.*'ab->ab'"),
        (FLIPOUT, (3, 3), "`equation` must be of the form.*equation=3"),
        (FLIPOUT, ("abc,cd->abd ", 3), "`equation` must be of the form"),
        (FLIPOUT, ("...ab,bc->ac", 3), "'...' on one side.*'...ab,bc->ac'"),
        (FLIPOUT, ("ab,bb->a", ()), "must not repeat a letter of the kernel"),
        (FLIPOUT, ("ab,bc->acc", 3), "must not repeat a letter of the outputs"),
        (FLIPOUT, ("ab,bcd->ac", 3), "each letter of the kernel.*'d' is in"),
        (FLIPOUT, ("ab,bc->acd", 3), "each letter of the outputs.*'d' is in"),
        (FLIPOUT, ("ab,bc->ca", 3), "the examples, must be the first.*ca"),
        (LOCAL, ("ab,bc->c", ()), "the examples, must be the first.*->c'"),
        (LOCAL, ("abc,ad->abd", (2, 3)), "no axis of the kernel.*,ad->abd"),
        (FLIPOUT, ("ab,bc->ac", 0), "`output_shape` .*output_shape=0"),
        (FLIPOUT, ("ab,bc->ac", 1.5), "`output_shape` .*output_shape=1.5"),
        (FLIPOUT, ("ab,bc->ac", "3"), "`output_shape` .*output_shape='3'"),
        (FLIPOUT, ("ab,bc->ac", 3, None, "b"), "`bias_axes` .*bias_axes='b'"),
        (FLIPOUT, ("ab,bc->ac", 3, None, ""), "`bias_axes` .*bias_axes=''"),
        (FLIPOUT, ("ab,bc->ac", 3, None, 1), "`bias_axes` .*bias_axes=1"),
    ],
    ids=str,
)
def test_bad_arguments(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(*arguments)


@pytest.mark.parametrize(
    ("arguments", "shape", "message"),
    [
        (("abc,cd->abd", 3), (2, 3, 4), "`output_shape` .*: 2 for .*=\\(3,\\)"),
        (("...c,cd->...d", ()), (2, 3, 4), "`output_shape` .*: 1 for"),
        (("abc,cd->abd", (3, 2)), (2, 4), "axes of `equation`.*\\(2, 4\\)"),
        (("ab,bc->ac", 3), (2, 3, 4), "axes of `equation`.*\\(2, 3, 4\\)"),
        (("ab,bc->ac", 3), (2, None), "axes of the kernel .*known size"),
        (
            ("abc,cd->abd", (None, 3), None, "b"),
            (2, 4, 4),
            "axes of the bias .*known size",
        ),
        (("...b,bc->...c", ()), (4,), "the examples, must be the first"),
    ],
    ids=str,
)
def test_inputs_that_do_not_fit_the_equation(arguments, shape, message):
    with pytest.raises(ValueError, match=message):
        FLIPOUT(*arguments).build(shape)


def test_inputs_of_another_size_are_refused():
    layer, x = built(FLIPOUT, "heads")
    with pytest.raises(ValueError, match="expected axis 2 .* have value 4"):
        layer(x[..., :3])
    assert layer(x[:, :1]).shape == (2, 1, 2, 3)  # any number of tokens


ESTIMATORS = ("reparameterization", "local_reparameterization", "flipout")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_einsum_layers_of_keras_become_bayesian_and_back(estimator):
    inputs = keras.Input((2, 4))
    x = keras.layers.EinsumDense(
        "abc,cde->abde", (None, 2, 3), "relu", "de", "he_normal", "normal"
    )(inputs)
    x = keras.layers.EinsumDense("...de,def->...f", 3, name="last")(x)
    model = keras.Model(inputs, x)
    bayesian = tfr.models.to_bayesian(
        model, num_train_examples=10, estimator=estimator, seed=0
    )
    kinds = [type(layer) for layer in bayesian.layers[1:]]
    assert kinds == [KINDS[ESTIMATORS.index(estimator)]] * 2
    x = np.random.default_rng(0).normal(size=(5, 2, 4)).astype("float32")
    with layers.mean_weights():
        np.testing.assert_array_equal(bayesian(x), model(x))
    back = tfr.models.to_deterministic(bayesian)
    np.testing.assert_array_equal(back(x), model(x))
    assert type(back.get_layer("last")) is keras.layers.EinsumDense


@pytest.mark.parametrize(
    ("equation", "shape", "is_told"),
    [
        ("ab...,bc->ac...", (5, 4), True),  # the last axis is as long
        ("ab...,bc->ac...", (5, 3), False),
        ("adbe,bc->adce", (4, 5, 3), True),  # the second one is
        ("adbe,bc->adce", (2, 5, 3), False),
        ("adb,bc->adc", (4, 5), False),
    ],
)
def test_a_bias_that_keras_adds_along_another_axis_is_told(
    equation, shape, is_told
):
    inputs = keras.Input(shape)
    sizes = {"ab...,bc->ac...": 4, "adbe,bc->adce": (shape[0], 4, 3)}
    layer = keras.layers.EinsumDense(
        equation, sizes.get(equation, (None, 4)), None, "c", name="told"
    )
    model = keras.Model(inputs, layer(inputs))
    layer.bias.assign(np.reshape(np.arange(4.0), layer.bias.shape))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        bayesian = tfr.models.to_bayesian(model, num_train_examples=10)
    assert [str(w.message)[:16] for w in found] == [
        "Keras adds a bias"[:16]
    ] * (is_told)
    x = np.ones((2, *shape), "float32")
    with layers.mean_weights():
        assert np.array_equal(bayesian(x), model(x)) != is_told
