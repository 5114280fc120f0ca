import keras
import numpy as np
import pytest

from tests.support import conv_layers
from tests.support import layer_case
from tests.support import statistics
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import regularizers

# The class, the shape of an input, arguments, and where the kernel and the
# outputs keep their units.
CASES = {
    "dense_flipout": (layers.DenseFlipout, (3,), {"units": 4}),
    "dense_local_reparameterization": (
        layers.DenseLocalReparameterization,
        (3,),
        {"units": 4},
    ),
    "dense_reparameterization": (
        layers.DenseReparameterization,
        (3,),
        {"units": 4},
    ),
    "conv1d_groups": (
        layers.Conv1DReparameterization,
        (5, 4),
        {"filters": 4, "kernel_size": 2, "groups": 2},
    ),
    "conv2d": (
        layers.Conv2DLocalReparameterization,
        (3, 4, 2),
        {"filters": 4, "kernel_size": (2, 3)},
    ),
    "conv2d_transpose": (
        layers.Conv2DTransposeFlipout,
        (2, 3, 2),
        {"filters": 4, "kernel_size": (2, 3), "strides": 2},
    ),
    "conv1d_transpose": (
        layers.Conv1DTransposeFlipout,
        (3, 2),
        {"filters": 4, "kernel_size": 3, "strides": 2},
    ),
    "depthwise_conv1d": (
        layers.DepthwiseConv1DFlipout,
        (4, 2),
        {"kernel_size": 2, "depth_multiplier": 2},
    ),
    "depthwise_conv2d": (
        layers.DepthwiseConv2DFlipout,
        (3, 4, 2),
        {"kernel_size": 2, "depth_multiplier": 2},
    ),
    "depthwise_conv2d_channels_first": (
        layers.DepthwiseConv2DFlipout,
        (2, 3, 4),
        {
            "kernel_size": 2,
            "depth_multiplier": 2,
            "data_format": "channels_first",
        },
    ),
}
FUNCTIONS = {
    "unit_kl": lambda layer: layer.unit_kl(),
    "unit_signal_to_noise": lambda layer: layer.unit_signal_to_noise(),
    "pruned_units": lambda layer: layer.pruned_units(),
    "remove_units": lambda layer: layer.remove_units([False] * 4),
}
every_case = pytest.mark.parametrize("name", CASES)
every_function = pytest.mark.parametrize("function", FUNCTIONS)


def make(name="dense_flipout", **arguments):
    """Returns a layer of 4 units with a posterior of order one."""
    make_layer, input_shape, own = CASES[name]
    if make_layer in conv_layers.DEPTHWISE:
        arguments = {
            key.replace("kernel_reg", "depthwise_reg"): value
            for key, value in arguments.items()
        }
    layer = make_layer(
        **{"num_train_examples": 50, "seed": 1, **own, **arguments}
    )
    layer.build((None, *input_shape))
    rng = np.random.default_rng(8)
    for weight in layer.variational_weights:
        weight.loc.assign(rng.normal(size=weight.loc.shape))
        if weight.family == "mean_field":
            weight.assign(scale=rng.uniform(0.5, 2.0, size=weight.loc.shape))
    if layer.use_bias:
        layer.bias.assign(rng.normal(size=layer.bias.shape))
    return layer


def of_unit(layer, values, unit):
    """Returns those of a kernel's values that lead to a unit."""
    values = np.asarray(values, "float64")
    if isinstance(layer, conv_layers.TRANSPOSED):
        return values[..., unit, :]
    if isinstance(layer, conv_layers.DEPTHWISE):
        channel, which = divmod(unit, layer.depth_multiplier)
        return values[..., channel, which]
    return values[..., unit]


def kl(loc, scale, prior_scale):
    s, mu = np.asarray([scale, loc], "float64") / prior_scale
    return np.sum(0.5 * (s**2 + mu**2 - 1.0) - np.log(s))


@every_case
def test_a_unit_is_an_output_channel(name):
    # The kernel of a unit holds all weights that its outputs depend on.
    layer = make(name)
    x = np.ones([1, *CASES[name][1]], "float32")
    before = np.asarray(layer(x, sample=False))
    kernel = layer.variational_weights[0]
    for unit in range(4):
        loc = np.array(kernel.loc)
        of_this = np.array(loc)
        if isinstance(layer, conv_layers.TRANSPOSED):
            of_this[..., unit, :] += 1.0
        elif isinstance(layer, conv_layers.DEPTHWISE):
            of_this[..., unit // 2, unit % 2] += 1.0
        else:
            of_this[..., unit] += 1.0
        kernel.assign(loc=of_this)
        after = np.asarray(layer(x, sample=False))
        kernel.assign(loc=loc)
        changed = np.moveaxis(after != before, layer.channel_axis, 0)
        assert [bool(np.any(one)) for one in changed] == [
            other == unit for other in range(4)
        ]


@every_case
def test_the_divergence_of_a_unit_is_that_of_its_kernel_and_bias(name):
    layer = make(
        name,
        kernel_regularizer=regularizers.GaussianKL(0.7),
        bias_regularizer=regularizers.GaussianKL(2.0),
    )
    kernel, bias = layer.variational_weights
    expected = [
        kl(
            of_unit(layer, kernel.loc, unit),
            of_unit(layer, kernel.scale, unit),
            0.7,
        )
        + kl(bias.loc[unit], bias.scale[unit], 2.0)
        for unit in range(4)
    ]
    found = layer.unit_kl()
    assert isinstance(found, np.ndarray)
    assert found.shape == (4,)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("kernel_posterior", "bias_posterior"),
    [
        ("mean_field", "mean_field"),
        ("fixed_variance", "fixed_variance"),
        ("k_tied", layers.KTiedPosterior(1)),
    ],
)
@pytest.mark.parametrize(
    "regularizer",
    ["gaussian_kl", "empirical_bayes_kl", "collapsed_mean_kl"],
)
@pytest.mark.parametrize("name", ["dense_flipout", "conv2d_transpose"])
def test_divergences_of_units_sum_to_that_of_the_layer(
    name, regularizer, kernel_posterior, bias_posterior
):
    layer = make(
        name,
        kernel_posterior=kernel_posterior,
        bias_posterior=bias_posterior,
        kernel_regularizer=regularizer,
        bias_regularizer=regularizer,
    )
    np.testing.assert_allclose(
        np.sum(layer.unit_kl()),
        sum(float(weight.kl()) for weight in layer.variational_weights),
        rtol=1e-5,
    )


def test_divergences_of_correlated_units_are_of_the_marginals():
    layer = make(
        kernel_posterior=layers.LowRankPosterior(2, 0.5), use_bias=False
    )
    (kernel,) = layer.variational_weights
    kernel.factor.assign(np.random.default_rng(3).normal(size=(2, 3, 4)))
    correlation = float(kernel.total_correlation())
    assert correlation > 0.1
    np.testing.assert_allclose(
        np.sum(layer.unit_kl()), float(kernel.kl()) - correlation, rtol=1e-5
    )


def test_only_weights_with_a_prior_count():
    with_bias = make().unit_kl()
    kernel = make(bias_regularizer=None)
    np.testing.assert_array_equal(
        kernel.unit_kl(), make(bias_posterior=None).unit_kl()
    )
    np.testing.assert_allclose(
        np.sum(kernel.unit_kl()),
        float(kernel.variational_weights[0].kl()),
        rtol=1e-5,
    )
    assert np.all(kernel.unit_kl() < with_bias)
    with pytest.raises(ValueError, match="has no prior"):
        make(kernel_regularizer=None).unit_kl()


def test_a_divergence_by_draws_is_unbiased_for_each_unit():
    num = 4000
    layer = layers.DenseReparameterization(
        num,
        use_bias=False,
        kernel_posterior=layers.MeanFieldPosterior(0.5),
        kernel_initializer=keras.initializers.Constant(0.4),
        # Of two equal components: Gaussian.
        kernel_regularizer=regularizers.ScaleMixtureKL(0.3, 0.8, 0.8),
    )
    layer.build((None, 2))
    statistics.assert_mean(layer.unit_kl(), 2 * kl(0.4, 0.5, 0.8), resolves=0.2)


@every_case
def test_signal_to_noise_is_the_root_mean_square_of_the_ratios(name):
    layer = make(name)
    kernel = layer.variational_weights[0]
    expected = []
    for unit in range(4):
        ratio = of_unit(layer, kernel.loc, unit) / of_unit(
            layer, kernel.scale, unit
        )
        expected.append(np.sqrt(np.mean(ratio**2)))
    found = layer.unit_signal_to_noise()
    assert isinstance(found, np.ndarray)
    assert found.shape == (4,)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    layer.variational_weights[1].assign(loc=np.full(4, 1e3))
    np.testing.assert_array_equal(layer.unit_signal_to_noise(), found)


@pytest.mark.parametrize(
    "posterior", ["fixed_variance", "k_tied", layers.LowRankPosterior(2, 0.5)]
)
def test_signal_to_noise_is_of_the_marginals_of_every_family(posterior):
    layer = make(kernel_posterior=posterior)
    kernel = layer.variational_weights[0]
    ratio = np.asarray(kernel.loc) / np.asarray(kernel.scale)
    np.testing.assert_allclose(
        layer.unit_signal_to_noise(),
        np.sqrt(np.mean(ratio**2, axis=0)),
        rtol=1e-5,
    )


def test_units_below_the_threshold_are_pruned():
    layer = make()
    ratios = np.array([0.1, 0.249, 0.251, 3.0])
    layer.variational_weights[0].assign(
        loc=np.ones([3, 1]) * ratios * np.array([[1.0], [-1.0], [1.0]]),
        scale=np.ones([3, 4]),
    )
    pruned = layer.pruned_units()
    assert pruned.dtype == bool
    assert pruned.tolist() == [True, True, False, False]
    assert layer.pruned_units(threshold=0.2).tolist() == [True] + 3 * [False]
    assert layer.pruned_units(1.0).tolist() == 3 * [True] + [False]
    assert not np.any(layer.pruned_units(0.0))


def test_a_unit_at_the_threshold_is_kept():
    layer = make(kernel_posterior=layers.FixedVariancePosterior(0.5))
    layer.variational_weights[0].assign(loc=np.full([3, 4], 0.125))
    np.testing.assert_array_equal(layer.unit_signal_to_noise(), 0.25)
    assert not np.any(layer.pruned_units())
    assert np.all(layer.pruned_units(0.2501))


def outputs_of(layer, name, sample):
    """Returns outputs, with the axis of the units first."""
    x = np.random.default_rng(7).normal(size=(5, *CASES[name][1]))
    functional.seeds.reseed(layer, 3)
    outputs = np.asarray(layer(x.astype("float32"), sample=sample))
    return np.moveaxis(outputs, layer.channel_axis, 0)


REMOVED = np.array([True, False, False, True])


@every_case
@pytest.mark.parametrize("sample", [True, False])
def test_outputs_of_removed_units_are_zero_and_others_as_they_were(
    name, sample
):
    layer = make(name, activation="relu")
    layer.bias.assign(np.full(4, 5.0))
    before = outputs_of(layer, name, sample)
    assert np.all(np.max(before, axis=tuple(range(1, before.ndim))) > 0.01)
    layer.remove_units(REMOVED)
    after = outputs_of(layer, name, sample)
    assert np.max(np.abs(after[REMOVED])) < 1e-5
    # The same draws, so the same moments.
    np.testing.assert_allclose(
        after[~REMOVED], before[~REMOVED], rtol=1e-5, atol=1e-6
    )


@every_case
def test_removing_units_changes_their_posterior_alone(name):
    layer = make(name)
    values = [
        (np.array(weight.loc), np.array(weight.scale))
        for weight in layer.variational_weights
    ]
    layer.remove_units(list(REMOVED))
    (kernel, bias), (kernel_old, bias_old) = layer.variational_weights, values
    for unit in range(4):
        for new, old, is_scale in (
            (of_unit(layer, kernel.loc, unit), kernel_old[0], False),
            (of_unit(layer, kernel.scale, unit), kernel_old[1], True),
        ):
            if not REMOVED[unit]:
                np.testing.assert_allclose(
                    new, of_unit(layer, old, unit), rtol=1e-5
                )
            elif is_scale:
                assert np.all((new > 0.0) & (new < 1e-7))
            else:
                np.testing.assert_array_equal(new, 0.0)
    np.testing.assert_array_equal(bias.loc, np.where(REMOVED, 0.0, bias_old[0]))
    np.testing.assert_allclose(
        bias.scale, np.where(REMOVED, 1e-8, bias_old[1]), rtol=1e-5
    )
    # There is no signal either; the divergence is finite.
    np.testing.assert_array_equal(layer.pruned_units(1e-6), REMOVED)
    assert np.all(np.isfinite(layer.unit_kl()))


def test_no_unit_or_all_can_be_removed():
    layer = make()
    before = layer_case.values(layer.weights)
    layer.remove_units(np.zeros(4, bool))
    for old, new in zip(before, layer.weights, strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-6)
    layer.remove_units(np.ones(4, bool))
    np.testing.assert_allclose(layer(np.ones([2, 3])), 0.0, atol=1e-5)


def test_a_bias_that_is_a_point_estimate_is_removed_too():
    layer = make(bias_posterior=None, activation="relu")
    before = np.array(layer.bias)
    layer.remove_units(REMOVED)
    np.testing.assert_array_equal(layer.bias, np.where(REMOVED, 0.0, before))
    outputs = np.asarray(layer(np.ones([50, 3], "float32")))
    assert np.max(np.abs(outputs[:, REMOVED])) < 1e-5


def test_units_without_a_bias_can_be_removed():
    layer = make(use_bias=False)
    layer.remove_units(REMOVED)
    outputs = np.asarray(layer(np.ones([50, 3], "float32")))
    assert np.max(np.abs(outputs[:, REMOVED])) < 1e-5
    assert np.min(np.abs(outputs[:, ~REMOVED])) > 1e-5


@pytest.mark.parametrize(
    "name", ["dense_flipout", "conv2d_transpose", "depthwise_conv2d"]
)
@pytest.mark.parametrize(
    "units", [[True] * 3, [True] * 5, [[True] * 4], [], True]
)
def test_one_boolean_for_each_unit_is_needed(name, units):
    layer = make(name)
    before = layer_case.values(layer.weights)
    with pytest.raises(ValueError, match="boolean for each of 4 units"):
        layer.remove_units(units)
    for old, new in zip(before, layer.weights, strict=True):
        np.testing.assert_array_equal(new, old)


@every_function
def test_a_layer_that_is_not_built_is_refused(function):
    layer = layers.DenseFlipout(4, name="lonely")
    with pytest.raises(ValueError, match="'lonely' must be built"):
        FUNCTIONS[function](layer)


@every_function
def test_a_kernel_that_is_a_point_estimate_is_refused(function):
    layer = make(kernel_posterior=None)
    before = layer_case.values(layer.weights)
    with pytest.raises(
        ValueError, match="its kernel have a Gaussian posterior"
    ):
        FUNCTIONS[function](layer)
    for old, new in zip(before, layer.weights, strict=True):
        np.testing.assert_array_equal(new, old)


@every_function
def test_a_kernel_with_random_multipliers_is_refused(function):
    layer = layers.DenseMNF(4, num_train_examples=50, name="mnf")
    layer.build((None, 3))
    before = layer_case.values(layer.weights)
    with pytest.raises(ValueError, match="'mnf' .* a Gaussian posterior"):
        FUNCTIONS[function](layer)
    for old, new in zip(before, layer.weights, strict=True):
        np.testing.assert_array_equal(new, old)
    # Without them it is like others.
    plain = layers.DenseMNF(4, flow_length=0, num_train_examples=50)
    plain.build((None, 3))
    FUNCTIONS[function](plain)


@pytest.mark.parametrize(
    ("kernel_posterior", "bias_posterior"),
    [
        ("fixed_variance", "mean_field"),
        ("k_tied", "mean_field"),
        (layers.LowRankPosterior(2), "mean_field"),
        ("fixed_variance", None),
        ("mean_field", "fixed_variance"),
        ("mean_field", layers.KTiedPosterior(1)),
        ("mean_field", layers.LowRankPosterior(1)),
    ],
)
def test_families_with_tied_scales_are_refused_and_nothing_changes(
    kernel_posterior, bias_posterior
):
    layer = make(
        kernel_posterior=kernel_posterior, bias_posterior=bias_posterior
    )
    before = layer_case.values(layer.weights)
    with pytest.raises(ValueError, match="cannot be set"):
        layer.remove_units(REMOVED)
    for old, new in zip(before, layer.weights, strict=True):
        np.testing.assert_array_equal(new, old)
