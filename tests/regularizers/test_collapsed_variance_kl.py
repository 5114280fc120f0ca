import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

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


def test_kl_is_the_collapsed_one_with_means_fixed_at_zero(posterior):
    kl = regularizers.CollapsedVarianceKL(1.5, 0.2)(*posterior)
    q = gaussian.Gaussian(*posterior)
    np.testing.assert_allclose(
        kl,
        np.sum(collapsed.collapsed_mean_variance_kl(q, 1.5, 0.2, 1.0)),
        rtol=1e-14,
    )
    assert kl == regularizers.CollapsedMeanVarianceKL(1.5, 0.2, 1.0)(*posterior)


def test_there_is_no_gaussian_prior(posterior):
    message = "CollapsedVarianceKL is a Student t, not Gaussian"
    with pytest.raises(ValueError, match=message):
        regularizers.CollapsedVarianceKL().prior(*posterior)


# Arguments.


@pytest.mark.parametrize("arguments", [(), (3, np.float32(0.5))])
def test_config_survives_a_round_trip(arguments):
    regularizer = regularizers.CollapsedVarianceKL(*arguments)
    config = keras.saving.serialize_keras_object(regularizer)
    assert config["registered_name"] == "tfp_refine>CollapsedVarianceKL"
    restored = keras.saving.deserialize_keras_object(config)
    assert type(restored) is regularizers.CollapsedVarianceKL
    shape, rate = arguments or (0.5, 0.01)
    assert restored.get_config() == {"shape": shape, "rate": rate}


def test_delta_is_no_argument():
    signature = inspect.signature(regularizers.CollapsedVarianceKL)
    assert list(signature.parameters) == ["shape", "rate"]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), True, "1", None])
@pytest.mark.parametrize("name", ["shape", "rate"])
def test_what_is_no_positive_number_is_rejected(name, value):
    message = f"`{name}` must be a positive finite.*Received: {name}="
    with pytest.raises(ValueError, match=message):
        regularizers.CollapsedVarianceKL(**{name: value})
