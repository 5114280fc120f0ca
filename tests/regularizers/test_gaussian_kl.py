import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_refine import layers
from tfp_refine import regularizers

tfd = tfp.distributions


@pytest.fixture
def posterior(rng):
    """Means and standard deviations, float64, `[6, 5]`."""
    return rng.normal(size=(6, 5)), rng.uniform(0.1, 2.0, size=(6, 5))


def test_kl_is_that_of_tfp_summed_over_the_tensor(posterior):
    kl = regularizers.GaussianKL(0.6)(*posterior)
    expected = tfd.kl_divergence(
        tfd.Normal(*posterior), tfd.Normal(np.float64(0.0), 0.6)
    )
    assert kl.shape == []
    np.testing.assert_allclose(kl, np.sum(expected), rtol=1e-12)


def test_weights_that_stand_twice_count_twice(posterior):
    regularizer = regularizers.GaussianKL(0.6)
    twice = [np.concatenate([part, part]) for part in posterior]
    np.testing.assert_allclose(
        regularizer(*twice), 2.0 * regularizer(*posterior), rtol=1e-14
    )


def test_kl_and_its_gradient_are_zero_at_the_prior():
    loc, scale = tf.Variable(tf.zeros(4)), tf.Variable(tf.fill([4], 0.3))
    with tf.GradientTape() as tape:
        kl = regularizers.GaussianKL(0.3)(loc, scale)
    np.testing.assert_allclose(kl, 0.0, atol=1e-6)
    for gradient in tape.gradient(kl, [loc, scale]):
        np.testing.assert_allclose(gradient, 0.0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kl_has_the_precision_of_the_mean(posterior, dtype):
    loc, scale = posterior
    kl = regularizers.GaussianKL()(keras.ops.cast(loc, dtype), scale)
    assert kl.dtype == dtype
    np.testing.assert_allclose(
        kl, regularizers.GaussianKL()(loc, scale), rtol=1e-6
    )


def test_variables_are_taken_as_their_values(posterior):
    variables = [keras.Variable(part, dtype="float64") for part in posterior]
    regularizer = regularizers.GaussianKL(2.0)
    assert regularizer(*variables) == regularizer(*posterior)


def test_prior_is_a_centered_gaussian_without_variables(posterior):
    regularizer = regularizers.GaussianKL(0.6)
    prior = regularizer.prior(*map(tf.constant, posterior))
    assert (float(prior.loc), float(prior.scale)) == (0.0, 0.6)
    # There is nothing to call: it would be an error.
    site = regularizers.PriorSite("kernel", None, add_weight=None, shared={})
    assert regularizer.prior_weights(site) == ()
    assert regularizer.penalty(*posterior) is None
    assert not regularizer.needs_draw


def test_base_class_has_no_gaussian_prior(posterior):
    message = "The prior of KLRegularizer is not Gaussian"
    with pytest.raises(ValueError, match=message):
        regularizers.KLRegularizer()(*posterior)


class Tempered(regularizers.KLRegularizer):
    def __init__(self, base, power=1.0):
        self.base = base
        self.power = power

    def prior(self, loc, scale, prior_weights=()):
        return self.base.prior(loc, scale, prior_weights)


def test_configurations_hold_the_arguments_of_a_class_of_ones_own():
    base = regularizers.GaussianKL(0.5)
    assert Tempered(base, 0.3).get_config() == {"base": base, "power": 0.3}
    assert regularizers.KLRegularizer().get_config() == {}


@pytest.mark.parametrize("prior_scale", [0.25, np.float32(0.25), 3])
def test_config_survives_a_round_trip(prior_scale):
    regularizer = regularizers.GaussianKL(prior_scale)
    config = keras.saving.serialize_keras_object(regularizer)
    assert config["registered_name"] == "tfp_refine>GaussianKL"
    restored = keras.saving.deserialize_keras_object(config)
    assert isinstance(restored, regularizers.GaussianKL)
    assert restored.prior_scale == float(prior_scale)
    assert type(restored.prior_scale) is float


@pytest.mark.parametrize(
    "value", [0, -1.0, float("nan"), float("inf"), True, None, [1.0]]
)
def test_prior_scale_that_is_no_positive_number_is_rejected(value):
    with pytest.raises(
        ValueError, match="`prior_scale` must be a positive finite.*Received"
    ):
        regularizers.GaussianKL(value)


@keras.saving.register_keras_serializable(package="tests")
class Narrow(regularizers.GaussianKL):
    """A prior of a user's own, without its argument."""

    def __init__(self):
        super().__init__("fan_in")

    def get_config(self):
        return {}


def test_a_subclass_may_have_other_arguments():
    layer = layers.DenseFlipout(3, kernel_regularizer=Narrow())
    layer.build((None, 4))
    np.testing.assert_allclose(layer.variational_weights[0].prior.scale, 0.5)
