import keras
import numpy as np
import pytest

from tests.support import layer_case
from tfp_refine import layers
from tfp_refine import regularizers


def make(**arguments):
    """Returns a layer of 4 inputs and 3 units."""
    layer = layers.DenseFlipout(
        **{
            "units": 3,
            "kernel_posterior": layers.FixedVariancePosterior(0.2),
            "bias_posterior": layers.FixedVariancePosterior(0.7),
            "num_train_examples": 20,
            **arguments,
        }
    )
    layer.build((None, 4))
    return layer


def test_the_scale_is_the_one_that_is_given():
    kernel, bias = make().variational_weights
    assert (kernel.scale.shape, bias.scale.shape) == ((4, 3), (3,))
    for weight, scale in ((kernel, 0.2), (bias, 0.7)):
        assert weight.family == "fixed_variance"
        assert weight.scale_weights == ()
        assert weight.total_correlation() is None
        for value in (weight.scale, weight.independent_scale):
            np.testing.assert_allclose(value, scale, rtol=1e-6)
        np.testing.assert_allclose(
            weight.variance("float32"), scale**2, rtol=1e-6
        )


def test_the_default_scale_is_that_of_the_paper():
    assert layers.FixedVariancePosterior().scale == np.exp(-5.0)


def test_only_the_means_are_trained():
    layer = make()
    model = keras.Sequential([keras.Input((4,)), layer])
    assert [v.name for v in layer.weights] == ["kernel_loc", "bias_loc"]
    before = layer_case.values(layer.weights)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(np.ones([8, 4]), np.full([8, 3], 5.0), epochs=3, verbose=0)
    for variable, old in zip(layer.weights, before, strict=True):
        assert np.all(np.asarray(variable) != old)
    for weight, scale in zip(
        layer.variational_weights, (0.2, 0.7), strict=True
    ):
        np.testing.assert_allclose(weight.scale, scale, rtol=1e-6)


def test_the_kl_is_a_quadratic_function_of_the_means(rng):
    layer = make(
        kernel_regularizer=regularizers.GaussianKL(0.5),
        bias_regularizer=regularizers.GaussianKL(2.0),
    )
    constant = layer_case.values(layer.losses)
    for weight in layer.variational_weights:
        weight.assign(loc=np.zeros(weight.loc.shape))
    constant = layer_case.values(layer.losses)
    for weight, prior, scale, loss in zip(
        layer.variational_weights, (0.5, 2.0), (0.2, 0.7), constant, strict=True
    ):
        one = np.log(prior / scale) + 0.5 * (scale / prior) ** 2 - 0.5
        size = np.prod(weight.loc.shape)
        np.testing.assert_allclose(loss, size * one / 20, rtol=1e-5)
    squares = []
    for weight in layer.variational_weights:
        loc = rng.normal(size=weight.loc.shape)
        weight.assign(loc=loc)
        squares.append(np.sum(loc**2))
    for loss, start, square, prior in zip(
        layer.losses, constant, squares, (0.5, 2.0), strict=True
    ):
        np.testing.assert_allclose(
            float(loss) - start, square / (2.0 * prior**2) / 20, rtol=1e-5
        )


def test_its_scales_cannot_be_set():
    for weight in make().variational_weights:
        before = np.array(weight.loc)
        with pytest.raises(ValueError, match="'fixed_variance' cannot be set"):
            weight.assign(loc=before + 1.0, scale=np.ones(weight.loc.shape))
        np.testing.assert_array_equal(weight.loc, before)
        weight.assign(loc=before + 1.0)
        np.testing.assert_array_equal(weight.loc, before + 1.0)


@pytest.mark.parametrize(
    "scale", [0.0, -1.0, float("nan"), float("inf"), "1", None, True]
)
def test_the_scale_must_be_a_positive_finite_number(scale):
    with pytest.raises(ValueError, match="`scale` must be a positive finite"):
        layers.FixedVariancePosterior(scale)


def test_scales_are_of_the_dtype_of_the_means():
    for dtype, expected in (
        ("float64", "float64"),
        ("mixed_float16", "float32"),
    ):
        for weight in make(dtype=dtype).variational_weights:
            assert weight.scale.dtype == expected
            np.testing.assert_allclose(
                weight.scale[0], 0.2 if weight.name == "kernel" else 0.7
            )
