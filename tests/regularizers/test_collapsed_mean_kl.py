"""`CollapsedMeanKL` with an `alpha_reg` that is given, and its arguments."""

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
    return rng.normal(size=(6, 5)), rng.uniform(0.1, 2.0, size=(6, 5))


def kl_by_hand(loc, scale, gamma, alpha_reg):
    """Computes equation CM of the paper with all of its constants."""
    variance = np.square(scale)
    return 0.5 * np.sum(
        np.log(gamma / variance)
        + (variance + alpha_reg * np.square(loc)) / gamma
        - 1.0
        - np.log(alpha_reg)
    )


def test_kl_is_the_collapsed_one_summed_over_the_tensor(posterior):
    kl = regularizers.CollapsedMeanKL(0.1, 0.6)(*posterior)
    q = gaussian.Gaussian(*map(tf.constant, posterior))
    assert kl.shape == []
    assert kl.dtype == "float64"
    np.testing.assert_allclose(
        kl, np.sum(collapsed.collapsed_mean_kl(q, 0.6, 0.1)), rtol=1e-14
    )
    np.testing.assert_allclose(
        kl, kl_by_hand(*posterior, 0.6**2, 0.1), rtol=1e-12
    )


def test_losses_of_a_layer_are_those_of_its_kernel_and_its_bias():
    layer = layers.DenseFlipout(
        4,
        kernel_regularizer=regularizers.CollapsedMeanKL(0.1),
        bias_regularizer=regularizers.CollapsedMeanKL(0.3, 0.7),
        num_train_examples=20,
        dtype="float64",
    )
    layer.build((None, 3))
    layer_case.spread(layer)
    kernel, bias = layer.variational_weights
    assert kernel.prior_weights == bias.prior_weights == ()
    expected = [
        kl_by_hand(kernel.loc, kernel.scale, 1 / 3, 0.1),
        kl_by_hand(bias.loc, bias.scale, 0.7**2, 0.3),
    ]
    np.testing.assert_allclose(
        layer.losses, np.divide(expected, 20), rtol=1e-12
    )


def test_alpha_of_one_is_the_gaussian_kl(posterior):
    np.testing.assert_allclose(
        regularizers.CollapsedMeanKL(1.0, 0.6)(*posterior),
        regularizers.GaussianKL(0.6)(*posterior),
        rtol=1e-14,
    )


def test_only_the_pull_of_the_means_is_weaker(posterior):
    gradients = []
    for regularizer in (
        regularizers.CollapsedMeanKL(0.1, 0.6),
        regularizers.GaussianKL(0.6),
    ):
        loc, scale = map(tf.constant, posterior)
        with tf.GradientTape() as tape:
            tape.watch((loc, scale))
            kl = regularizer(loc, scale)
        gradients.append(tape.gradient(kl, (loc, scale)))
    (loc, scale), (full_loc, full_scale) = gradients
    np.testing.assert_allclose(loc, 0.1 * full_loc, rtol=1e-12)
    np.testing.assert_allclose(scale, full_scale, rtol=1e-12)


def test_prior_is_the_one_with_the_means_integrated_out(posterior):
    loc, scale = map(tf.constant, posterior)
    regularizer = regularizers.CollapsedMeanKL(0.04, 0.6)
    prior = regularizer.prior(loc, scale)
    assert prior.scale.shape == []
    assert float(prior.loc) == 0.0
    np.testing.assert_allclose(prior.scale, 0.6 / 0.2, rtol=1e-14)
    # From it, the divergence is lower by the documented amount.
    gap = np.sum((1.0 - 0.04) * np.square(scale) / (2.0 * 0.6**2))
    marginal = regularizers.GaussianKL(float(prior.scale))
    np.testing.assert_allclose(
        regularizer(loc, scale) - marginal(loc, scale), gap, rtol=1e-12
    )


# Arguments.


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"alpha_reg": np.float32(0.25), "prior_scale": 3},
        {"learn": "closed_form", "prior_scale": "he"},
        {"learn": "gradient", "exponential_rate": 5, "shared": True},
    ],
)
def test_config_survives_a_round_trip(arguments):
    regularizer = regularizers.CollapsedMeanKL(**arguments)
    config = keras.saving.serialize_keras_object(regularizer)
    assert config["registered_name"] == "tfp_refine>CollapsedMeanKL"
    restored = keras.saving.deserialize_keras_object(config)
    assert isinstance(restored, regularizers.CollapsedMeanKL)
    defaults = {
        "alpha_reg": 0.05,
        "prior_scale": "fan_in",
        "learn": None,
        "exponential_rate": None,
        "shared": False,
    }
    assert restored.get_config() == {**defaults, **arguments}
    assert type(restored.alpha_reg) is float


@pytest.mark.parametrize(
    "value", [0, 0.0, -0.1, 1.5, float("nan"), "a", "0.5", None, True, [0.5]]
)
def test_alpha_that_is_no_proportion_is_rejected(value):
    message = r"`alpha_reg` must be in \(0, 1\].*Received: alpha_reg="
    with pytest.raises(ValueError, match=message):
        regularizers.CollapsedMeanKL(value)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), True, None])
def test_prior_scale_that_is_no_positive_number_is_rejected(value):
    message = "`prior_scale` must be a positive finite.*Received"
    with pytest.raises(ValueError, match=message):
        regularizers.CollapsedMeanKL(prior_scale=value)


@pytest.mark.parametrize("value", ["x", True, "", 1, ["gradient"]])
def test_unknown_ways_to_learn_are_rejected(value):
    message = "`learn` must be .*'closed_form', 'gradient'.*Received: learn="
    with pytest.raises(ValueError, match=message):
        regularizers.CollapsedMeanKL(learn=value)


@pytest.mark.parametrize(
    "arguments", [{"exponential_rate": 5.0}, {"shared": True}]
)
def test_arguments_of_a_learned_alpha_need_one(arguments):
    message = "`exponential_rate` and `shared` .* give `learn`"
    with pytest.raises(ValueError, match=message):
        regularizers.CollapsedMeanKL(**arguments)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), "5"])
@pytest.mark.parametrize("learn", ["closed_form", "gradient"])
def test_rate_that_is_no_positive_number_is_rejected(learn, value):
    message = "`exponential_rate` must be a positive finite.*Received"
    with pytest.raises(ValueError, match=message):
        regularizers.CollapsedMeanKL(learn=learn, exponential_rate=value)
