import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tfp_refine import layers
from tfp_refine import regularizers
from tfp_refine.math import collapsed
from tfp_refine.math import gaussian


@pytest.fixture
def posterior(rng):
    """Means and standard deviations, float64, `[6, 5]`."""
    return (
        tf.constant(rng.normal(size=(6, 5))),
        tf.constant(rng.uniform(0.1, 2.0, size=(6, 5))),
    )


def test_kl_is_the_collapsed_one_summed_over_the_tensor(posterior):
    kl = regularizers.CollapsedMeanVarianceKL(1.5, 0.2, 0.3)(*posterior)
    assert kl.shape == []
    assert kl.dtype == "float64"
    expected = collapsed.collapsed_mean_variance_kl(
        gaussian.Gaussian(*posterior), 1.5, 0.2, 0.3
    )
    np.testing.assert_allclose(kl, np.sum(expected), rtol=1e-14)


def test_losses_of_a_layer_are_those_of_its_kernel_and_its_bias():
    regularizer = regularizers.CollapsedMeanVarianceKL(1.5, 0.2, 0.3)
    layer = layers.DenseFlipout(
        4,
        kernel_regularizer=regularizer,
        bias_regularizer=regularizer,
        num_train_examples=20,
        dtype="float64",
    )
    layer.build((None, 3))
    layer_case.spread(layer)
    assert all(w.prior_weights == () for w in layer.variational_weights)
    expected = [
        regularizer(weight.loc, weight.scale) / 20.0
        for weight in layer.variational_weights
    ]
    np.testing.assert_allclose(layer.losses, expected, rtol=1e-14)


def test_many_precisions_known_well_are_a_collapsed_mean(posterior):
    shape = 1e7
    kl = regularizers.CollapsedMeanVarianceKL(shape, shape * 0.6**2, 0.1)
    np.testing.assert_allclose(
        kl(*posterior),
        regularizers.CollapsedMeanKL(0.1, 0.6)(*posterior),
        rtol=1e-5,
    )


def test_there_is_no_gaussian_prior(posterior):
    regularizer = regularizers.CollapsedMeanVarianceKL()
    message = "CollapsedMeanVarianceKL is a Student t, not Gaussian"
    with pytest.raises(ValueError, match=message):
        regularizer.prior(*posterior)


# Arguments.


@pytest.mark.parametrize("arguments", [(), (3, np.float32(0.5), 1)])
def test_config_survives_a_round_trip(arguments):
    regularizer = regularizers.CollapsedMeanVarianceKL(*arguments)
    config = keras.saving.serialize_keras_object(regularizer)
    assert config["registered_name"] == "tfp_refine>CollapsedMeanVarianceKL"
    restored = keras.saving.deserialize_keras_object(config)
    assert type(restored) is regularizers.CollapsedMeanVarianceKL
    values = arguments or (0.5, 0.01, 0.05)
    assert restored.get_config() == dict(
        zip(("shape", "rate", "delta"), values, strict=True)
    )
    assert {type(v) for v in restored.get_config().values()} == {float}


@pytest.mark.parametrize(
    "value", [0.0, -1.0, float("nan"), float("inf"), True, "1", None]
)
@pytest.mark.parametrize("name", ["shape", "rate"])
def test_what_is_no_positive_number_is_rejected(name, value):
    message = f"`{name}` must be a positive finite.*Received: {name}="
    with pytest.raises(ValueError, match=message):
        regularizers.CollapsedMeanVarianceKL(**{name: value})


@pytest.mark.parametrize("value", [0.0, -0.1, 1.5, float("nan"), "a", True])
def test_delta_that_is_no_proportion_is_rejected(value):
    message = r"`delta` must be in \(0, 1\].*Received: delta="
    with pytest.raises(ValueError, match=message):
        regularizers.CollapsedMeanVarianceKL(delta=value)
