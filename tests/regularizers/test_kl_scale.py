"""The factor on a layer's KL divergence as an argument of the layer."""

import keras
import numpy as np
import pytest

from tests.support import layer_case
from tests.support import linear_gaussian
from tfp_refine import layers
from tfp_refine import refinement


def build(make_layer=layers.DenseFlipout, **arguments):
    layer = make_layer(3, num_train_examples=10, **arguments)
    layer.build((None, 4))
    return layer_case.spread(layer)


@pytest.mark.parametrize("scale", [0.1, 0.5, 1, np.float32(2.0)])
def test_losses_are_scaled(scale):
    layer = build(kl_scale=scale)
    assert float(layer.kl_scale) == np.float32(scale)
    np.testing.assert_allclose(
        layer.losses, float(scale) * np.array(build().losses), rtol=1e-6
    )


@pytest.mark.parametrize("scale", [0, 0.0])
def test_a_scale_of_zero_is_no_kl(scale):
    layer = build(kl_scale=scale)
    assert [float(loss) for loss in layer.losses] == [0.0, 0.0]
    assert layer.get_config()["kl_scale"] == 0.0


@pytest.mark.parametrize("scale", [0.25, 0.0, 3.0])
def test_set_kl_scale_replaces_it(scale):
    layer = build(kl_scale=0.5)
    layers.set_kl_scale(layer, scale)
    np.testing.assert_allclose(
        layer.losses, scale * np.array(build().losses), rtol=1e-6
    )
    # For this training run: the layer is made as it was.
    assert layer.get_config()["kl_scale"] == 0.5


def test_config_has_it(tmp_path):
    assert layers.DenseFlipout(3).get_config()["kl_scale"] == 1.0
    layer = layers.Conv2DFlipout(3, 2, kl_scale=0.25, num_train_examples=10)
    assert layer.kl_scale is None  # not built
    copy = type(layer).from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    model = keras.Sequential([keras.Input((4, 4, 1)), layer])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert float(loaded.layers[0].kl_scale) == 0.25
    np.testing.assert_array_equal(loaded.losses, model.losses)


@pytest.mark.parametrize(
    "value", [-1.0, -1e-9, float("nan"), float("inf"), "a", None]
)
@pytest.mark.parametrize(
    "make_layer", [layers.DenseFlipout, layers.DenseReparameterization]
)
def test_what_is_no_factor_is_rejected(make_layer, value):
    with pytest.raises(ValueError, match="`kl_scale` must be .*Received"):
        make_layer(3, kl_scale=value)


def test_the_bound_does_not_depend_on_it():
    problem = linear_gaussian.LinearGaussian()
    model = problem.model()
    bounds = []
    for scale in (1.0, 0.1, 0.0):
        layers.set_kl_scale(model, scale)
        bounds.append(refinement.elbo(model, problem.x, problem.y, seed=1))
    assert bounds[0] == bounds[1] == bounds[2]


@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_a_model_cannot_be_told_what_is_no_factor(value):
    model = linear_gaussian.LinearGaussian().model()
    with pytest.raises(ValueError, match="`kl_scale` must be .*Received"):
        layers.set_kl_scale(model, value)
    assert float(model.layers[1].kl_scale) == 1.0


def test_a_point_estimate_may_have_any_kl_regularizer():
    layer = layers.DenseFlipout(
        3, bias_posterior=None, bias_regularizer="scale_mixture_kl"
    )
    layer.build((None, 2))
    assert len(layer.variational_weights) == 1
