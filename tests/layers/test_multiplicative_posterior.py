import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tests.support import multiplicative_bound
from tests.support import multiplicative_draws
from tests.support import statistics
from tfp_refine import layers
from tfp_refine import regularizers

PRIOR_SCALE = 0.7
KINDS = {
    "dense": (layers.DenseMNF, (3,), {"units": 4}),
    "conv2d": (
        layers.Conv2DMNF,
        (4, 4, 2),
        {"filters": 3, "kernel_size": (2, 1), "groups": 1},
    ),
    "single_input": (layers.DenseMNF, (1,), {"units": 4}),
    "single_filter": (
        layers.Conv2DMNF,
        (4, 4, 2),
        {"filters": 1, "kernel_size": 2},
    ),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind="dense", **arguments):
    """Returns the layer, all of whose weights are of order one."""
    make_layer, input_shape, own = KINDS[kind]
    layer = make_layer(
        **{
            "kernel_regularizer": regularizers.GaussianKL(PRIOR_SCALE),
            "dtype": "float64",
            "seed": 1,
            "num_train_examples": 1,
            "flow_units": 4,
            "auxiliary_flow_units": 5,
            **own,
            **arguments,
        }
    )
    layer.build((None, *input_shape))
    return layer_case.spread(layer)


def kernel_of(layer):
    return layer.variational_weights[0]


def set_kernel(layer, **values):
    """Assigns to the weights of the kernel by their names."""
    for name, value in values.items():
        (variable,) = (v for v in layer.weights if v.name == f"kernel_{name}")
        variable.assign(
            tf.broadcast_to(tf.cast(value, "float64"), variable.shape)
        )


def kl_draws(layer, num):
    weight, seed = kernel_of(layer), layer.seed_generator
    return multiplicative_draws.repeat(lambda: weight.kl(seed=seed), num)


@pytest.fixture
def record(monkeypatch):
    return multiplicative_bound.Recorder(monkeypatch)


# The bound of a draw.


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"masks": "random"},
        {"masks": "random", "auxiliary": "paper"},
        {"masks": "alternating", "flow_length": 3, "auxiliary_flow_length": 1},
        {"masks": "random", "auxiliary_flow_length": 0},
    ],
)
@every_kind
def test_the_divergence_of_a_draw_is_the_bound(kind, settings, record):
    layer = make(kind, **settings)
    bound = multiplicative_bound.Bound(
        layer, PRIOR_SCALE, settings.get("auxiliary")
    )
    size = len(bound.loc)
    lengths = (
        settings.get("flow_length", 2),
        settings.get("auxiliary_flow_length", 2),
    )
    for _ in range(2):
        record.clear()
        found = float(kernel_of(layer).kl(seed=layer.seed_generator))
        noise, r_noise = record.normals
        masks = [0.5 * (1.0 + signs) for signs in record.masks]
        if settings["masks"] == "alternating" and size > 1:
            assert masks == []
            masks = [
                [(np.arange(size) + step) % 2 for step in range(length)]
                for length in lengths
            ]
        assert len(masks) == (size > 1) * sum(n > 0 for n in lengths)
        masks = [*masks, (), ()]
        expected = bound(noise, masks[0], r_noise, masks[1])
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_log_precisions_are_clipped():
    layer = make(auxiliary_flow_length=0)
    far = []
    for size in (50.0, 5000.0):
        # tanh(1) at all units.
        set_kernel(layer, loc=0.0, untransformed_scale=-40.0)
        set_kernel(layer, loc=[[1.0], [1.0], [1.0]], z_log_variance=-60.0)
        set_kernel(layer, auxiliary=[[5.0] * 3, [0.0] * 3, [size] * 3])
        set_kernel(layer, auxiliary_base=0.0)
        layer.seed_generator.state.assign([7, 0])
        far.append(float(kernel_of(layer).kl(seed=layer.seed_generator)))
    assert np.isfinite(far[0])
    assert far[0] == far[1]


@every_kind
def test_r_has_noise_for_each_unit_or_weight_of_a_filter(kind, record):
    layer = make(kind)
    num_rest = multiplicative_bound.Bound(layer, PRIOR_SCALE).loc.shape[1]
    kernel_of(layer).kl(seed=layer.seed_generator)
    assert record.normals[1].shape == (num_rest,)


def test_without_noise_flow_and_r_it_is_that_of_mean_field():
    layer = make(masks="alternating", auxiliary_flow_length=0)
    set_kernel(
        layer,
        z_loc=[0.5, -1.0, 2.0],
        z_log_variance=-40.0,
        flow_output_kernel=0.0,
        flow_output_bias=[[[0.0], [60.0]]],  # gates of one: the identity
        auxiliary=0.0,
        auxiliary_base=0.0,
    )
    loc, scale = (np.asarray(v) for v in (layer.kernel, kernel_of(layer).scale))
    z = np.array([0.5, -1.0, 2.0])
    s, mu = scale / PRIOR_SCALE, z[:, None] * loc / PRIOR_SCALE
    mean_field = np.sum(0.5 * (s**2 + mu**2 - 1.0) - np.log(s))
    log_q = -1.5 * (np.log(2 * np.pi) + 1.0 - 40.0)
    log_r = -0.5 * np.sum(z**2) - 1.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(
        float(kernel_of(layer).kl()), mean_field + log_q - log_r, rtol=1e-7
    )


def test_single_draws_may_be_negative():
    # Given multipliers, the posterior is the prior.
    layer = make()
    set_kernel(
        layer, loc=0.0, untransformed_scale=np.log(np.expm1(PRIOR_SCALE))
    )
    draws = kl_draws(layer, 300)
    assert np.min(draws) < 0.0 < np.max(draws)
    assert np.min(layer_case.values([kernel_of(layer).kl()])) != 0.0


@pytest.mark.slow
@pytest.mark.parametrize("masks", ["random", "alternating"])
def test_what_multipliers_cost_is_not_negative_on_average(masks):
    layer = make(masks=masks)
    set_kernel(
        layer, loc=0.0, untransformed_scale=np.log(np.expm1(PRIOR_SCALE))
    )
    draws = kl_draws(layer, 2000)
    assert np.mean(draws) > 6.0 * np.std(draws) / np.sqrt(len(draws))


# Its mean, for a single weight.


def single_weight():
    """Returns a layer of a single weight, with two modes."""
    layer = make(
        "single_input",
        units=1,
        use_bias=False,
        kernel_regularizer=regularizers.GaussianKL(2.0),
    )
    set_kernel(
        layer,
        loc=1.2,
        untransformed_scale=-1.0,
        z_loc=0.1,
        z_log_variance=-0.5,
        flow_u=[[2.0], [1.5]],
        flow_w=[[1.8], [1.5]],
        flow_b=[0.1, -0.2],
        auxiliary_flow_u=[[0.4], [-0.3]],
        auxiliary_flow_w=[[0.5], [0.6]],
        auxiliary_flow_b=[0.3, 0.2],
        auxiliary=[[0.8], [0.5], [-0.6]],
        auxiliary_base=[[0.2], [-0.3]],
    )
    return layer


@pytest.mark.slow
def test_the_average_is_the_bound_of_the_exact_divergence():
    layer = single_weight()
    bound = multiplicative_bound.Bound(layer, 2.0)
    draws = kl_draws(layer, 21000)
    statistics.assert_mean(draws, bound.average(), resolves=0.2)
    assert bound.average() > bound.exact() + 0.1
    # And the draws of the weight are those whose divergence it is.
    z, _ = bound.multipliers(np.random.default_rng(0).normal(size=(20000, 1)))
    seed = layer.seed_generator
    weights = multiplicative_draws.repeat(
        lambda: kernel_of(layer).sample(seed, "float64"), 4000
    )
    for power in (1, 2, 4):
        exact = 1.2 * z[:, 0] + bound.scale[0, 0] * np.random.default_rng(
            1
        ).normal(size=len(z))
        expected = np.mean(exact**power)
        statistics.assert_mean(
            weights[:, 0, 0] ** power,
            expected,
            1.2 * np.std(exact**power),
            resolves=0.3 * np.std(exact**power),
        )


@pytest.mark.slow
def test_training_r_makes_the_bound_tighter_and_changing_it_looser():
    layer = single_weight()
    before = multiplicative_bound.Bound(layer, 2.0)
    weight = kernel_of(layer)
    variables = [v for v in layer.weights if "auxiliary" in v.name]
    optimizer = keras.optimizers.Adam(0.04)
    optimizer.build(variables)

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                [weight.kl(seed=layer.seed_generator) for _ in range(4)]
            )
        gradients = tape.gradient(loss, [v.value for v in variables])
        optimizer.apply(gradients, variables)

    for _ in range(400):
        step()
    trained = multiplicative_bound.Bound(layer, 2.0).average()
    assert before.exact() <= trained < before.average() - 0.1
    values = layer_case.values(variables)
    rng = np.random.default_rng(2)
    for _ in range(10):
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value + 2.0 * rng.normal(size=value.shape))
        changed = multiplicative_bound.Bound(layer, 2.0)
        assert changed.average() > trained + 0.01


# Priors.


@pytest.mark.parametrize(
    "regularizer",
    ["empirical_bayes_kl", "collapsed_mean_kl", "collapsed_variance_kl"],
)
@every_kind
def test_every_divergence_is_of_the_weights_given_multipliers(
    kind, regularizer, record
):
    layer = make(kind, kernel_regularizer=regularizer)
    weight = kernel_of(layer)
    bound = multiplicative_bound.Bound(layer, PRIOR_SCALE)
    found = float(weight.kl(seed=layer.seed_generator))
    noise, r_noise = record.normals
    masks = [*(0.5 * (1.0 + signs) for signs in record.masks), (), ()]
    z, _ = bound.multipliers(noise, masks[0])
    of_gaussian = bound(noise, masks[0], r_noise, masks[1])
    shape = (-1, 1) if bound.is_dense else (-1,)
    mean = tf.reshape(z, shape) * layer.kernel
    expected = weight.regularizer(mean, weight.scale, weight.prior_weights)
    np.testing.assert_allclose(
        found - float(expected),
        of_gaussian - bound.conditional_kl(z),
        rtol=1e-7,
    )


@pytest.mark.parametrize(
    "regularizer",
    ["collapsed_mean_kl", regularizers.EmpiricalBayesKL(closed_form=True)],
)
def test_the_marginal_divergence_is_that_from_the_prior_as_it_stands(
    regularizer, record
):
    same, collapsed = make(), make(kernel_regularizer=regularizer)
    np.testing.assert_allclose(
        float(kernel_of(same).marginal_kl(seed=keras.random.SeedGenerator(3))),
        float(kernel_of(same).kl(seed=keras.random.SeedGenerator(3))),
        rtol=1e-9,
    )
    weight = kernel_of(collapsed)
    record.clear()
    found = float(weight.marginal_kl(seed=keras.random.SeedGenerator(3)))
    noise, r_noise = record.normals
    masks = [0.5 * (1.0 + signs) for signs in record.masks]
    bound = multiplicative_bound.Bound(collapsed, 1.0)
    z, _ = bound.multipliers(noise, masks[0])
    mean = z[:, None] * bound.loc
    # The prior has the best means for these weights.
    prior = weight.regularizer.prior(
        tf.constant(mean), weight.scale, weight.prior_weights
    )
    s = bound.scale / np.asarray(prior.scale)
    mu = (mean - np.asarray(prior.loc)) / np.asarray(prior.scale)
    conditional = np.sum(0.5 * (s**2 + mu**2 - 1.0) - np.log(s))
    rest = bound(noise, masks[0], r_noise, masks[1]) - bound.conditional_kl(z)
    np.testing.assert_allclose(found, conditional + rest, rtol=1e-9)
    other = float(weight.kl(seed=keras.random.SeedGenerator(3)))
    is_marginal = regularizer != "collapsed_mean_kl"
    assert np.isclose(found, other, rtol=1e-9) == is_marginal


def test_a_divergence_that_needs_the_draw_of_the_weights_is_refused():
    with pytest.raises(ValueError, match="ScaleMixtureKL"):
        make(kernel_regularizer="scale_mixture_kl")


# Multipliers and weights.


@pytest.mark.slow
@pytest.mark.parametrize("masks", ["random", "alternating"])
@every_kind
def test_mean_multipliers_are_the_average_of_many(kind, masks):
    weight = kernel_of(make(kind, masks=masks))
    z, _ = weight.draw_z((100000,), keras.random.SeedGenerator(5))
    z = np.asarray(z)
    # As far as 128 draws tell, at the very least.
    found = np.asarray(weight.mean_z())
    error = np.std(z, axis=0) / np.sqrt(128)
    assert np.all(np.abs(found - np.mean(z, axis=0)) < 5.0 * error)
    np.testing.assert_array_equal(weight.mean_z(), found)
    axis = (slice(None), None) if "input" in kind or kind == "dense" else ()
    np.testing.assert_allclose(
        weight.mean("float64"), found[axis] * np.asarray(weight.loc)
    )
    assert weight.mean("float32").dtype == "float32"


def test_mean_multipliers_are_not_those_of_the_mean():
    layer = single_weight()
    set_kernel(layer, flow_b=0.7)
    weight = kernel_of(layer)
    bound = multiplicative_bound.Bound(layer, 1.0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    z, _ = bound.multipliers(nodes[:, None])
    mean = weights @ z[:, 0] / np.sum(weights)
    at_mean, _ = bound.multipliers(np.zeros([1]))
    error = np.abs(float(weight.mean_z()[0]) - mean)
    assert error < 0.2 * np.abs(at_mean[0] - mean)


@every_kind
def test_the_kernel_knows_all_of_its_variables(kind):
    layer = make(kind)
    known = [
        variable
        for weight in layer.variational_weights
        for variable in (weight.loc, *weight.scale_weights)
    ]
    assert {id(v) for v in known} == {id(v) for v in layer.weights}


def test_initial_variances_are_the_arguments():
    layer = layers.DenseMNF(2, log_var_init=-3.0, z_var_init=0.4)
    layer.build((None, 3))
    for weight in layer.variational_weights:
        np.testing.assert_allclose(weight.scale, np.exp(-1.5), rtol=1e-5)
    weight = kernel_of(layer)
    np.testing.assert_allclose(weight.base.log_variance, np.log(0.4), rtol=1e-6)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] * ("single" in kind))
        for kind in KINDS
    ],
)
def test_draws_of_weights_have_the_moments_of_multipliers_and_noise(kind):
    layer = make(kind)
    weight, seed = kernel_of(layer), layer.seed_generator
    bound = multiplicative_bound.Bound(layer, 1.0)
    size, num_rest = bound.loc.shape
    for draw, variance in (
        (lambda: weight.sample(seed, "float64"), bound.scale**2),
        (lambda: weight.draw_mean(seed), 0.0 * bound.scale),
    ):
        draws = multiplicative_draws.repeat(draw, 4000)
        if not bound.is_dense:
            draws = np.moveaxis(draws, -1, 1)
        loadings = np.zeros([size, num_rest, size])
        for d in range(size):
            loadings[d, :, d] = bound.loc[d]
        moments = multiplicative_draws.Moments(
            layer, np.reshape(loadings, (-1, size)), 0.0, np.ravel(variance)
        )
        moments.check(np.reshape(draws, (len(draws), -1)), resolves=0.4)


# A family of its own.


def test_scales_cannot_be_set():
    layer = make()
    before = layer_case.values(layer.weights)
    with pytest.raises(
        ValueError, match="'multiplicative_normalizing_flow' cannot be set"
    ):
        kernel_of(layer).assign(scale=np.ones([3, 4]))
    for old, new in zip(before, layer.weights, strict=True):
        np.testing.assert_array_equal(new, old)
    kernel_of(layer).assign(loc=np.ones([3, 4]))
    np.testing.assert_array_equal(layer.kernel, 1.0)
