"""Tests of narrow posteriors around trained networks."""

import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tfp_refine import functional
from tfp_refine import recipes

N, M = 30, 3
KL_SCALES = (3.0, 1.0, 0.04)


def build(*layers):
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(4, "tanh"), *layers]
    )
    model.compile(loss=tfr.losses.HeteroscedasticGaussianNLL())
    return model


@pytest.fixture(scope="module")
def networks():
    x = np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32)
    model = build(keras.layers.Dense(1), tfr.layers.HomoscedasticNoise(0.3))
    return tfr.ensembles.deep_ensemble(
        model, x, x[:, :1], num_members=M, steps=5, seed=1, verbose=0
    )


def narrow(networks, kl_scales=KL_SCALES, **options):
    return recipes.narrow_posteriors(
        networks, kl_scales, num_train_examples=N, seed=1, **options
    )


def of_member(found, member):
    """Returns means and scales of the weights of a member, lists of arrays."""
    weights = functional.variational_weights(found.member(member))
    return [np.array(w.loc) for w in weights], [
        np.array(w.scale) for w in weights
    ]


@pytest.mark.parametrize("options", [{}, {"scale": 0.2}], ids=["usual", "wide"])
def test_means_are_the_networks_and_cold_members_are_narrower(
    networks, options
):
    found = narrow(networks, **options)
    assert found.num_members == M
    for member, factor in enumerate((1.0, 1.0, 0.2)):  # the root of 0.04
        network = networks.member(member)
        means, scales = of_member(found, member)
        expected = [
            np.array(v)
            for layer in network.layers[:2]
            for v in (layer.kernel, layer.bias)
        ]
        for mean, scale, weight in zip(means, scales, expected, strict=True):
            np.testing.assert_array_equal(mean, weight)
            np.testing.assert_allclose(
                scale, factor * options.get("scale", 0.01), rtol=1e-5
            )


def test_the_noise_starts_from_a_value_or_stays(networks):
    noise = [
        np.array(found.member(1).layers[-1].weights[0])
        for found in (
            networks,
            narrow(networks),
            narrow(networks, raw_noise=-1.5),
        )
    ]
    np.testing.assert_array_equal(noise[1], noise[0])
    np.testing.assert_allclose(noise[2], -1.5)


def test_networks_may_have_several_members(networks):
    found = narrow(networks, (1.0, 1.0, 1.0, 0.04))
    means, scales = of_member(found, 3)
    first, _ = of_member(found, 0)
    for mean, expected in zip(means, first, strict=True):
        np.testing.assert_array_equal(mean, expected)
    np.testing.assert_allclose(scales[0], 0.002, rtol=1e-5)


def test_the_prior_can_be_given(networks):
    regularizer = tfr.regularizers.GaussianKL(0.5)
    found = narrow(networks, regularizer=regularizer)
    _, scale = functional.MeanFieldView(found.model).prior()
    np.testing.assert_allclose(scale, 0.5)


def test_refinement_can_start_from_them(networks):
    x = np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32)
    refined = tfr.refine(
        narrow(networks), x, x[:, :1], steps=1, seed=1, verbose=0,
        kl_scale=KL_SCALES, variance_ratios=(0.5,),
    )  # fmt: skip
    assert refined.history["start"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kl_scales": (1.0, 1.0)},
            "`kl_scales` must be at least 3 numbers.*Received.*1.0",
        ),
        ({"kl_scales": 1.0}, r"`kl_scales` must have shape \[any\]"),
        ({"kl_scales": (1.0, 1.0, 0.0)}, "`kl_scales` must be.*Received.*0.0"),
        ({"scale": -1.0}, "must be .*positive.*Received.*-1.0"),
        ({"estimator": "none"}, "`estimator` must be.*none"),
        ({"raw_noise": np.nan}, "`raw_noise` must be.*finite.*nan"),
        (
            {"raw_noise": [0.0, 1.0]},
            r"`raw_noise` must have shape \[1\].*\[2\]",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_bad_arguments_are_refused(networks, options, message):
    with pytest.raises(ValueError, match=message):
        narrow(networks, **options)


def test_a_noise_needs_a_layer_for_it():
    x = np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32)
    networks = tfr.ensembles.deep_ensemble(
        build(keras.layers.Dense(2)), x, x[:, :1], num_members=M, steps=1,
        seed=1, verbose=0,
    )  # fmt: skip
    with pytest.raises(ValueError, match="HomoscedasticNoise.*raw_noise=0.5"):
        narrow(networks, raw_noise=0.5)


def test_only_ensembles_get_posteriors():
    with pytest.raises(ValueError, match="EnsemblePosterior.*Sequential"):
        narrow(build(keras.layers.Dense(2)))


def test_weights_may_be_single_numbers(networks):
    # Those of the prior are, which empirical Bayes learns.
    found = narrow(networks, regularizer="empirical_bayes_kl")
    _, scales = of_member(found, 0)
    np.testing.assert_allclose(scales[0], 0.01, rtol=1e-5)
