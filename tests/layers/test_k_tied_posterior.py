import keras
import numpy as np
import pytest

from tfp_refine import layers
from tfp_refine import regularizers
from tfp_refine.math import softplus


def dense(num_inputs, units, posterior, **arguments):
    """Returns the kernel of a dense layer."""
    layer = layers.DenseFlipout(
        units, kernel_posterior=posterior, use_bias=False, **arguments
    )
    layer.build((None, num_inputs))
    (kernel,) = layer.variational_weights
    return kernel


def assign_factors(weight, rows, columns):
    """Assigns the positive factors, whose product the scales are."""
    weight.untransformed_rows.assign(softplus.inverse(rows))
    weight.untransformed_columns.assign(softplus.inverse(columns))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_scales_are_a_product_of_two_positive_matrices(rng, rank):
    kernel = dense(5, 4, layers.KTiedPosterior(rank))
    assert kernel.untransformed_rows.shape == (5, rank)
    assert kernel.untransformed_columns.shape == (4, rank)
    rows = rng.uniform(0.1, 2.0, size=(5, rank)).astype("float32")
    columns = rng.uniform(0.1, 2.0, size=(4, rank)).astype("float32")
    assign_factors(kernel, rows, columns)
    for value in (kernel.scale, kernel.independent_scale):
        np.testing.assert_allclose(value, rows @ columns.T, rtol=1e-5)
    assert kernel.family == "k_tied"
    assert kernel.factor is None
    assert kernel.total_correlation() is None


@pytest.mark.parametrize(
    ("make_layer", "input_shape", "arguments", "shape"),
    [
        (layers.Conv1DFlipout, (6, 4), {"groups": 2}, (2, 2, 6)),
        (layers.Conv2DFlipout, (4, 4, 3), {}, (2, 2, 3, 6)),
        (layers.Conv3DReparameterization, (3, 3, 3, 2), {}, (2, 2, 2, 2, 6)),
    ],
)
def test_rows_of_a_convolution_are_places_and_input_channels(
    rng, make_layer, input_shape, arguments, shape
):
    layer = make_layer(
        6, 2, kernel_posterior=layers.KTiedPosterior(2), **arguments
    )
    layer.build((None, *input_shape))
    kernel = layer.variational_weights[0]
    num_rows = int(np.prod(shape[:-1]))
    rows = rng.uniform(0.1, 2.0, size=(num_rows, 2)).astype("float32")
    columns = rng.uniform(0.1, 2.0, size=(6, 2)).astype("float32")
    assign_factors(kernel, rows, columns)
    rows = np.reshape(rows, (*shape[:-1], 2))
    for place in np.ndindex(shape[:-1]):
        for unit in range(6):
            np.testing.assert_allclose(
                kernel.scale[(*place, unit)],
                rows[place] @ columns[unit],
                rtol=1e-5,
            )


@pytest.mark.parametrize(
    ("make_layer", "arguments", "num_inputs", "num_units"),
    [
        (layers.Conv2DTransposeFlipout, {"filters": 3}, 2 * 2 * 4, 3),
        (layers.DepthwiseConv2DFlipout, {"depth_multiplier": 2}, 2 * 2, 4 * 2),
    ],
)
def test_columns_are_output_channels_where_these_are_not_the_last_axis(
    rng, make_layer, arguments, num_inputs, num_units
):
    layer = make_layer(kernel_size=2, kernel_posterior="k_tied", **arguments)
    layer.build((None, 5, 5, 4))
    kernel = layer.variational_weights[0]
    assert kernel.untransformed_columns.shape == (num_units, 2)
    assert kernel.untransformed_rows.shape == (num_inputs, 2)
    rows = rng.uniform(0.1, 2.0, size=(num_inputs, 2)).astype("float32")
    columns = rng.uniform(0.1, 2.0, size=(num_units, 2)).astype("float32")
    assign_factors(kernel, rows, columns)
    scale = np.asarray(kernel.scale)
    for unit in range(num_units):
        if make_layer is layers.DepthwiseConv2DFlipout:
            of_unit = scale[:, :, unit // 2, unit % 2]
        else:
            of_unit = scale[:, :, unit]
        np.testing.assert_allclose(
            np.ravel(of_unit), rows @ columns[unit], rtol=1e-5
        )


@pytest.mark.parametrize("initial_scale", [1e-6, 1e-3, 0.7, 50.0, 1000.0])
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_training_starts_from_about_the_initial_scale(initial_scale, rank):
    kernel = dense(40, 30, layers.KTiedPosterior(rank, initial_scale))
    ratio = np.asarray(kernel.scale) / initial_scale
    # Two factors, each off by three times the jitter of a tenth at most, but
    # for a few.
    assert np.mean(np.abs(np.log(ratio)) < 3 * 0.1 * np.sqrt(2.0)) > 0.98
    np.testing.assert_allclose(np.mean(ratio), 1.0, atol=0.1)
    # Were they equal, they would stay so.
    for raw in (kernel.untransformed_rows, kernel.untransformed_columns):
        assert len(np.unique(raw)) == np.prod(raw.shape)
        jitter = np.std(np.log(np.log1p(np.exp(np.asarray(raw, "float64")))))
        assert 0.06 < jitter < 0.14
    assert np.std(np.log(ratio)) > 0.03


@pytest.mark.parametrize("size", [(3, 3), (4, 3)])
def test_rows_and_columns_have_jitters_of_their_own(size):
    kernel = dense(*size, layers.KTiedPosterior(2, 0.5))
    rows, columns = (np.asarray(raw) for raw in kernel.scale_weights)
    assert not np.any(np.isclose(rows[:3], columns, atol=1e-7))


def test_the_jitter_repeats_with_the_seed():
    first, second, other = (
        np.asarray(dense(4, 3, layers.KTiedPosterior(seed=seed)).scale)
        for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.any(np.isclose(first, other, rtol=1e-6))
    loose = [
        np.asarray(dense(4, 3, layers.KTiedPosterior(seed=None)).scale)
        for _ in range(2)
    ]
    assert not np.any(np.isclose(*loose, rtol=1e-6))


@pytest.mark.parametrize("shape", [(1, 6), (6, 1)])
def test_one_row_or_one_column_has_any_scales(rng, shape):
    kernel = dense(*shape, layers.KTiedPosterior(1))
    scale = rng.uniform(0.05, 3.0, size=shape).astype("float32")
    one = np.ones([1, 1], "float32")
    factors = (one, scale.T) if shape[0] == 1 else (scale, one)
    assign_factors(kernel, *factors)
    np.testing.assert_allclose(kernel.scale, scale, rtol=1e-5)
    same = dense(*shape, layers.MeanFieldPosterior())
    same.assign(loc=kernel.loc, scale=scale)
    for weight in (kernel, same):
        weight.set_prior(regularizers.GaussianKL(0.5))
    np.testing.assert_allclose(kernel.kl(), same.kl(), rtol=1e-5)


def test_a_bias_is_a_matrix_of_one_row():
    posterior = layers.KTiedPosterior(1, 0.3)
    layer = layers.DenseFlipout(5, bias_posterior=posterior)
    layer.build((None, 2))
    bias = layer.variational_weights[1]
    assert [v.shape for v in bias.scale_weights] == [(1, 1), (5, 1)]
    assert bias.scale.shape == (5,)


def test_the_kl_is_that_of_independent_weights_with_these_scales(rng):
    layer = layers.Conv2DFlipout(
        3,
        2,
        kernel_posterior="k_tied",
        kernel_regularizer=regularizers.GaussianKL(0.5),
        bias_posterior=None,
        num_train_examples=10,
    )
    layer.build((None, 4, 4, 2))
    (kernel,) = layer.variational_weights
    kernel.assign(loc=rng.normal(size=kernel.loc.shape))
    s = np.asarray(kernel.scale, "float64") / 0.5
    mu = np.asarray(kernel.loc, "float64") / 0.5
    expected = np.sum(0.5 * (s**2 + mu**2 - 1.0) - np.log(s))
    (loss,) = layer.losses
    np.testing.assert_allclose(float(loss), expected / 10, rtol=1e-5)


@pytest.mark.parametrize(
    ("num_inputs", "units", "rank"), [(2, 5, 3), (5, 2, 3), (1, 4, 2)]
)
def test_a_rank_above_a_side_of_the_matrix_is_refused(num_inputs, units, rank):
    message = rf"rank={rank} for {num_inputs} x {units} \(kernel\)"
    with pytest.raises(ValueError, match=message):
        dense(num_inputs, units, layers.KTiedPosterior(rank))
    # The largest that fits.
    dense(num_inputs, units, layers.KTiedPosterior(min(num_inputs, units)))


def test_a_rank_above_one_is_refused_for_a_bias():
    layer = layers.DenseFlipout(5, bias_posterior=layers.KTiedPosterior(2))
    with pytest.raises(ValueError, match=r"rank=2 for 1 x 5 \(bias\)"):
        layer.build((None, 4))


@pytest.mark.parametrize("rank", [0, -1, 1.0, "2", True])
def test_the_rank_must_be_a_positive_integer(rank):
    with pytest.raises(ValueError, match="`rank` must be a positive integer"):
        layers.KTiedPosterior(rank)


@pytest.mark.parametrize(
    "initial_scale", [0.0, -1.0, float("nan"), float("inf"), "1"]
)
def test_initial_scale_must_be_a_positive_finite_number(initial_scale):
    with pytest.raises(ValueError, match="`initial_scale` must be a positive"):
        layers.KTiedPosterior(initial_scale=initial_scale)


def test_its_scales_cannot_be_set():
    kernel = dense(4, 3, layers.KTiedPosterior())
    before = np.array(kernel.loc)
    with pytest.raises(ValueError, match="'k_tied' cannot be set"):
        kernel.assign(loc=before + 1.0, scale=np.ones([4, 3]))
    np.testing.assert_array_equal(kernel.loc, before)


def test_it_saves_variables():
    count = {
        posterior: sum(
            keras.ops.size(variable)
            for variable in dense(20, 10, posterior).scale_weights
        )
        for posterior in ("k_tied", "mean_field")
    }
    assert count == {"k_tied": 2 * (20 + 10), "mean_field": 20 * 10}


@pytest.mark.parametrize(
    ("num_inputs", "units", "rank"), [(4, 3, 2), (4, 1, 1), (1, 5, 1)]
)
def test_the_default_rank_fits_every_matrix(num_inputs, units, rank):
    layer = layers.DenseFlipout(
        units, kernel_posterior="k_tied", bias_posterior="k_tied"
    )
    layer.build((None, num_inputs))
    kernel, bias = layer.variational_weights
    assert kernel.untransformed_rows.shape == (num_inputs, rank)
    assert kernel.untransformed_columns.shape == (units, rank)
    assert bias.untransformed_columns.shape == (units, 1)


@pytest.mark.parametrize("seed", ["", "1", 1.5, True, -1, [], {}])
def test_a_wrong_seed_is_refused(seed):
    with pytest.raises(ValueError, match="`seed` must be an integer, not neg"):
        layers.KTiedPosterior(seed=seed)
    assert layers.KTiedPosterior(seed=None).seed is None
