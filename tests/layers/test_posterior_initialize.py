import numpy as np
import pytest

from tfp_refine import layers


def make(posterior, make_layer=layers.DenseFlipout, **arguments):
    """Returns a built layer of 4 inputs and 3 units, in double precision."""
    if posterior is not None:
        arguments |= {"kernel_posterior": posterior}
    layer = make_layer(3, dtype="float64", seed=1, **arguments)
    layer.build((None, 4))
    return layer


def draw(rng, shape=(4, 3)):
    return rng.normal(size=shape), rng.uniform(0.1, 2.0, size=shape)


def test_mean_field_posteriors_become_what_is_given(rng):
    loc, scale = draw(rng)
    weight = make("mean_field").variational_weights[0]
    weight.initialize(loc, scale)
    np.testing.assert_array_equal(weight.loc, loc)
    np.testing.assert_allclose(weight.scale, scale, rtol=1e-12)


@pytest.mark.parametrize(
    "posterior", ["mean_field", "fixed_variance", "low_rank", "k_tied"]
)
def test_numbers_and_rows_are_broadcast(posterior, rng):
    row = rng.normal(size=3)
    kernel, bias = make(posterior).variational_weights
    kernel.initialize(row, 0.5)
    bias.initialize(2.0, 0.25)
    np.testing.assert_array_equal(kernel.loc, np.tile(row, (4, 1)))
    np.testing.assert_array_equal(bias.loc, np.full(3, 2.0))
    np.testing.assert_allclose(bias.scale, np.full(3, 0.25), rtol=1e-12)


def test_single_precision_weights_take_doubles(rng):
    loc, scale = draw(rng)
    layer = layers.DenseFlipout(3)
    layer.build((None, 4))
    weight = layer.variational_weights[0]
    weight.initialize(loc, scale)
    np.testing.assert_array_equal(weight.loc, loc.astype("float32"))
    np.testing.assert_allclose(weight.scale, scale, rtol=1e-5)


def test_fixed_variances_stay(rng):
    loc, scale = draw(rng)
    weight = make(layers.FixedVariancePosterior(0.3)).variational_weights[0]
    weight.initialize(loc, scale)
    np.testing.assert_array_equal(weight.loc, loc)
    np.testing.assert_array_equal(weight.scale, np.full([4, 3], 0.3))


def test_low_rank_factors_keep_their_ratio_to_the_independent_part(rng):
    loc, scale = draw(rng)
    weight = make("low_rank").variational_weights[0]
    before = np.asarray(weight.factor / weight.independent_scale)
    correlation = float(weight.total_correlation())
    weight.initialize(loc, scale)
    np.testing.assert_array_equal(weight.loc, loc)
    np.testing.assert_allclose(weight.independent_scale, scale, rtol=1e-12)
    np.testing.assert_allclose(
        weight.factor / weight.independent_scale, before, rtol=1e-10
    )
    # So that they have not died, and correlations stay.
    assert np.all(np.asarray(weight.factor) != 0.0)
    np.testing.assert_allclose(
        weight.total_correlation(), correlation, rtol=1e-8
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_tied_scales_are_products_of_what_rows_and_columns_have(rank, rng):
    rows, columns = rng.uniform(0.1, 2.0, size=(4, 1)), rng.uniform(size=3)
    loc, scale = rng.normal(size=(4, 3)), rows * columns
    weight = make(layers.KTiedPosterior(rank)).variational_weights[0]
    weight.initialize(loc, scale)
    np.testing.assert_array_equal(weight.loc, loc)
    # The jitter, of a tenth in each factor, does not cancel in `k` terms.
    rtol = 1e-10 if rank == 1 else 0.1
    np.testing.assert_allclose(weight.scale, scale, rtol=rtol)


def test_tied_scales_are_the_closest_product_in_logarithms(rng):
    _, scale = draw(rng)
    weight = make(layers.KTiedPosterior(1)).variational_weights[0]
    weight.initialize(0.0, scale)
    error = np.log(weight.scale) - np.log(scale)
    # Least squares: errors have no mean along any row or column.
    np.testing.assert_allclose(np.mean(error, axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(np.mean(error, axis=1), 0.0, atol=1e-10)


def test_terms_of_tied_scales_stay_different(rng):
    _, scale = draw(rng)
    weight = make(layers.KTiedPosterior(2)).variational_weights[0]
    weight.initialize(0.0, scale)
    for factor in weight.scale_weights:
        first, second = np.asarray(factor).T
        assert np.all(np.abs(first - second) > 1e-6)


@pytest.mark.parametrize(
    ("make_layer", "shape", "units"),
    [
        (layers.Conv2DFlipout, (5, 5, 2), 3),
        (layers.Conv2DTransposeFlipout, (5, 5, 2), 3),
    ],
)
def test_tied_scales_of_convolutions_are_those_of_columns(
    make_layer, shape, units, rng
):
    layer = make_layer(
        units,
        2,
        kernel_posterior=layers.KTiedPosterior(1),
        dtype="float64",
    )
    layer.build((None, *shape))
    columns = rng.uniform(0.1, 2.0, size=(8, 1)) * rng.uniform(size=units)
    weight = layer.variational_weights[0]
    weight.initialize(0.0, layer.kernel_of(columns))
    np.testing.assert_allclose(layer.columns(weight.scale), columns, rtol=1e-10)


@pytest.mark.parametrize(
    ("make_layer", "arguments", "shape"),
    [
        (layers.DenseMNF, {"units": 3}, (4,)),
        (layers.Conv2DMNF, {"filters": 3, "kernel_size": 2}, (4, 4, 2)),
    ],
)
def test_multiplicative_posteriors_have_the_mean_that_is_given(
    make_layer, arguments, shape, rng
):
    layer = make_layer(**arguments, dtype="float64", seed=1)
    layer.build((None, *shape))
    weight = layer.variational_weights[0]
    flow = [np.array(v) for v in weight.scale_weights[1:]]
    loc, scale = draw(rng, weight.loc.shape)
    weight.initialize(loc, scale)
    np.testing.assert_allclose(weight.mean("float64"), loc, rtol=1e-10)
    np.testing.assert_allclose(weight.scale, scale, rtol=1e-12)
    assert np.max(np.abs(np.asarray(weight.loc) - loc)) > 1e-4
    for variable, value in zip(weight.scale_weights[1:], flow, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_a_flow_of_length_zero_leaves_a_mean_field_posterior(rng):
    loc, scale = draw(rng)
    layer = make(None, layers.DenseMNF, flow_length=0)
    weight = layer.variational_weights[0]
    weight.initialize(loc, scale)
    np.testing.assert_array_equal(weight.loc, loc)
    np.testing.assert_allclose(weight.scale, scale, rtol=1e-12)


@pytest.mark.parametrize("family", ["fixed_variance", "low_rank", "k_tied"])
def test_families_that_cannot_have_any_scale_still_refuse_an_assignment(
    family,
):
    weight = make(family).variational_weights[0]
    with pytest.raises(ValueError, match=f"'{family}'.*cannot be set"):
        weight.assign(scale=np.ones([4, 3]))
