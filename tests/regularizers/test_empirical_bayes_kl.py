import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import empirical_bayes
from tfp_refine import regularizers

# In closed form.


def test_closed_form_is_the_least_kl_of_all_prior_scales(posterior):
    closed = regularizers.EmpiricalBayesKL(closed_form=True)
    best = float(closed.prior(*posterior).scale)
    others = best * np.array([0.1, 0.5, 0.99, 0.999, 1.001, 1.01, 2.0, 10.0])
    kls = [float(regularizers.GaussianKL(v)(*posterior)) for v in others]
    kl = float(closed(*posterior))
    assert kl < min(kls)
    np.testing.assert_allclose(
        regularizers.GaussianKL(best)(*posterior), kl, rtol=1e-12
    )


def test_gradient_of_the_prior_scale_is_zero_at_the_closed_form(posterior):
    closed = regularizers.EmpiricalBayesKL(closed_form=True)
    raw = tf.Variable(
        empirical_bayes.softplus_inverse(closed.prior(*posterior).scale)
    )
    with tf.GradientTape() as tape:
        kl = empirical_bayes.kl_given(posterior, raw)
    np.testing.assert_allclose(tape.gradient(kl, raw), 0.0, atol=1e-11)
    raw.assign_add(0.01)
    with tf.GradientTape() as tape:
        kl = empirical_bayes.kl_given(posterior, raw)
    assert tape.gradient(kl, raw) > 0.1


def test_least_kl_is_half_the_logs_of_the_variance_ratios(posterior):
    _, scale = posterior
    closed = regularizers.EmpiricalBayesKL(closed_form=True)
    prior = closed.prior(*posterior)
    assert prior.scale.shape == []
    np.testing.assert_array_equal(prior.loc, 0.0)
    np.testing.assert_allclose(
        closed(*posterior),
        0.5 * np.sum(np.log(prior.scale**2 / scale**2)),
        rtol=1e-12,
    )


def test_least_kl_has_the_gradient_of_a_prior_that_stays(posterior):
    closed = regularizers.EmpiricalBayesKL(closed_form=True)
    fixed = regularizers.GaussianKL(float(closed.prior(*posterior).scale))
    gradients = []
    for regularizer in (closed, fixed):
        with tf.GradientTape() as tape:
            tape.watch(posterior)
            kl = regularizer(*posterior)
        gradients.append(tape.gradient(kl, posterior))
    for found, expected in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


# By gradient.


@pytest.mark.slow
def test_training_the_prior_alone_converges_to_the_closed_form(posterior):
    closed = regularizers.EmpiricalBayesKL(closed_form=True)
    raw = tf.Variable(empirical_bayes.softplus_inverse(1.5))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            kl = empirical_bayes.kl_given(posterior, raw)
        raw.assign_sub(0.2 / 30 * tape.gradient(kl, raw))

    for _ in range(200):
        step()
    np.testing.assert_allclose(
        tf.math.softplus(raw), closed.prior(*posterior).scale, rtol=1e-9
    )
    np.testing.assert_allclose(
        empirical_bayes.kl_given(posterior, raw), closed(*posterior), rtol=1e-12
    )


def test_without_variables_the_prior_is_the_initial_one(posterior):
    regularizer = regularizers.EmpiricalBayesKL(initial_prior_scale=0.7)
    np.testing.assert_allclose(
        regularizer(*posterior),
        regularizers.GaussianKL(0.7)(*posterior),
        rtol=1e-14,
    )


def test_one_object_keeps_one_prior_for_each_tensor_of_each_layer():
    regularizer = regularizers.EmpiricalBayesKL(initial_prior_scale=0.7)
    weights = [
        weight
        for layer in (
            empirical_bayes.build(regularizer),
            empirical_bayes.build(regularizer),
        )
        for weight in layer.variational_weights
    ]
    variables = [weight.prior_weights[0] for weight in weights]
    assert [variable.name for variable in variables] == [
        "kernel_prior_untransformed_scale",
        "bias_prior_untransformed_scale",
    ] * 2
    for i, variable in enumerate(variables):
        assert variable.shape == ()
        assert variable.trainable
        variable.assign(empirical_bayes.softplus_inverse(0.5 + i))
    found = [float(weight.prior.scale) for weight in weights]
    np.testing.assert_allclose(found, [0.5, 1.5, 2.5, 3.5], rtol=1e-6)
    # Nor does the object remember any of them.
    assert regularizer.get_config()["initial_prior_scale"] == 0.7


def test_closed_form_has_a_prior_for_each_tensor_and_no_variables():
    layer = empirical_bayes.build(
        regularizers.EmpiricalBayesKL(closed_form=True)
    )
    kernel, bias = layer.variational_weights
    assert kernel.prior_weights == bias.prior_weights == ()
    # A mean and a scale for the kernel, and for the bias.
    assert len(layer.trainable_variables) == 4
    kernel.assign(loc=np.full((3, 4), 2.0), scale=np.full((3, 4), 1.5))
    bias.assign(loc=np.zeros(4), scale=np.full(4, 0.3))
    np.testing.assert_allclose(kernel.prior.scale, 2.5, rtol=1e-6)
    np.testing.assert_allclose(bias.prior.scale, 0.3, rtol=1e-6)


@pytest.mark.parametrize("initial", [1e-4, 0.1, 1.0, 30.0, 200.0])
def test_variable_starts_at_the_initial_prior_scale(initial):
    layer = empirical_bayes.build(regularizers.EmpiricalBayesKL(False, initial))
    for weight in layer.variational_weights:
        np.testing.assert_allclose(weight.prior.scale, initial, rtol=1e-5)


# Scales by name.


@pytest.mark.parametrize(("name", "gain"), [("fan_in", 1.0), ("he", 2.0)])
def test_a_name_stands_for_where_a_layer_starts(name, gain):
    regularizer = regularizers.EmpiricalBayesKL(
        False, name, learn_mean=True, inverse_gamma=(2.01, 0.101)
    )
    layer = empirical_bayes.build(regularizer)  # of 3 inputs
    for weight in layer.variational_weights:
        np.testing.assert_allclose(
            weight.prior.scale, (gain / 3) ** 0.5, rtol=1e-6
        )
        # All else stays as it is.
        assert len(weight.prior_weights) == 2
        assert weight.regularizer.inverse_gamma == [2.01, 0.101]
    assert layer.kernel_regularizer is regularizer
    assert regularizer.get_config()["initial_prior_scale"] == name


def test_a_name_needs_a_fan_in_unless_it_has_no_effect(posterior):
    regularizer = regularizers.EmpiricalBayesKL(initial_prior_scale="he")
    with pytest.raises(ValueError, match="'he' depends on .* `for_fan_in`"):
        regularizer(*posterior)
    assert regularizer.for_fan_in(2)(*posterior) == (
        regularizers.EmpiricalBayesKL()(*posterior)
    )
    closed = regularizers.EmpiricalBayesKL(True)
    assert regularizers.EmpiricalBayesKL(True, "he")(*posterior) == (
        closed(*posterior)
    )


# Configuration.


@pytest.mark.parametrize("closed_form", [False, True])
def test_config_survives_a_round_trip(closed_form):
    regularizer = regularizers.EmpiricalBayesKL(closed_form, 0.25)
    config = keras.saving.serialize_keras_object(regularizer)
    assert config["registered_name"] == "tfp_refine>EmpiricalBayesKL"
    restored = keras.saving.deserialize_keras_object(config)
    assert isinstance(restored, regularizers.EmpiricalBayesKL)
    assert restored.closed_form is closed_form
    assert restored.initial_prior_scale == 0.25
    assert restored.learn_mean is False
    assert restored.inverse_gamma is None


@pytest.mark.parametrize("pair", [(2.01, 0.101), [3, np.float32(0.5)]])
def test_config_of_a_hyperprior_survives_a_round_trip(pair):
    regularizer = regularizers.EmpiricalBayesKL(
        learn_mean=True, inverse_gamma=pair
    )
    # As in a file.
    config = json.loads(
        json.dumps(keras.saving.serialize_keras_object(regularizer))
    )
    restored = keras.saving.deserialize_keras_object(config)
    assert restored.learn_mean is True
    assert restored.inverse_gamma == list(pair)
    assert restored.get_config() == regularizer.get_config()


@pytest.mark.parametrize("value", [2.01, (2.01,), (1.0, 2.0, 3.0), ()])
def test_hyperprior_that_is_no_pair_is_rejected(value):
    message = "`inverse_gamma` must hold a concentration and a scale.*Received"
    with pytest.raises(ValueError, match=message):
        regularizers.EmpiricalBayesKL(inverse_gamma=value)


@pytest.mark.parametrize(
    "value", [(0.0, 1.0), (1.0, -0.1), (float("nan"), 1.0), (1.0, None), "ab"]
)
def test_hyperprior_that_is_not_positive_is_rejected(value):
    message = "`inverse_gamma` must be a positive finite.*Received"
    with pytest.raises(ValueError, match=message):
        regularizers.EmpiricalBayesKL(inverse_gamma=value)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), True, None])
def test_initial_prior_scale_that_is_no_positive_number_is_rejected(value):
    with pytest.raises(
        ValueError, match="`initial_prior_scale` must be a positive finite"
    ):
        regularizers.EmpiricalBayesKL(initial_prior_scale=value)


@pytest.mark.parametrize("name", ["1", "fan_out", ""])
def test_unknown_name_of_an_initial_prior_scale_is_rejected(name):
    message = (
        "`initial_prior_scale` must be .*'fan_in', 'he'.*"
        "Received: initial_prior_scale="
    )
    with pytest.raises(ValueError, match=message):
        regularizers.EmpiricalBayesKL(initial_prior_scale=name)
