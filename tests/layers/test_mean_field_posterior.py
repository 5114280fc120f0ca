import keras
import numpy as np
import pytest

from tfp_refine import layers
from tfp_refine.layers import posterior_lookup


@pytest.mark.parametrize("initial_scale", [1e-6, 1e-3, 0.7, 50.0, 1000.0])
def test_training_starts_from_the_initial_scale(initial_scale):
    posterior = layers.MeanFieldPosterior(initial_scale)
    layer = layers.DenseFlipout(
        2, kernel_posterior=posterior, bias_posterior=posterior
    )
    layer.build((None, 3))
    for weight in layer.variational_weights:
        np.testing.assert_allclose(weight.scale, initial_scale, rtol=1e-5)


def test_the_default_scale_is_small_and_its_name_stands_for_it():
    assert posterior_lookup.get("mean_field").initial_scale == 1e-3
    assert posterior_lookup.get(None) is None
    posterior = layers.MeanFieldPosterior(0.2)
    assert posterior_lookup.get(posterior) is posterior
    config = keras.saving.serialize_keras_object(posterior)
    assert config["registered_name"] == "tfp_refine>MeanFieldPosterior"
    assert posterior_lookup.get(config).initial_scale == 0.2


@pytest.mark.parametrize(
    "initial_scale", [0.0, -1.0, float("nan"), float("inf"), "1"]
)
def test_initial_scale_must_be_a_positive_finite_number(initial_scale):
    with pytest.raises(ValueError, match="`initial_scale` must be a positive"):
        layers.MeanFieldPosterior(initial_scale)
