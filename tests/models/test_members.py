"""Tests of ensembles of trained networks that get posteriors."""

import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tfp_refine import functional


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype("float32")
    return x, (x[:, :1] + 0.1 * rng.normal(size=(60, 1))).astype("float32")


@pytest.fixture(scope="module")
def ensemble(data):
    keras.utils.set_random_seed(1)
    network = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, "relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(2),
        ]
    )
    network.compile("adam", tfr.losses.HeteroscedasticGaussianNLL())
    return tfr.ensembles.deep_ensemble(
        network, *data, num_members=2, steps=30, seed=1, verbose=0
    )


def _converted(ensemble, **arguments):
    arguments = {
        "num_train_examples": 60,
        "estimator": "local_reparameterization",
        "posterior": tfr.layers.MeanFieldPosterior(0.01),
        "initializer": None,
        "seed": 1,
    } | arguments
    return tfr.models.to_bayesian(ensemble, **arguments)


@pytest.mark.slow
def test_each_member_is_that_of_its_own_conversion(ensemble, data):
    converted = _converted(ensemble)
    x = data[0]
    for index in range(2):
        member = converted.member(index)
        with tfr.layers.mean_weights():
            np.testing.assert_allclose(
                member(x), ensemble.member(index)(x), rtol=1e-6, atol=1e-6
            )
        kernel = member.layers[0].variational_weights[0]
        np.testing.assert_allclose(kernel.scale, 0.01, rtol=1e-5)
    # Members are different networks, moving averages included.
    assert np.ptp(converted.params, axis=0).max() > 0.1
    assert any(np.any(value[0] != value[1]) for value in converted.fixed)


@pytest.mark.slow
def test_the_loss_is_that_of_the_ensemble(ensemble):
    model = _converted(ensemble).model
    assert isinstance(model.loss, tfr.losses.HeteroscedasticGaussianNLL)


@pytest.mark.slow
def test_it_can_be_refined(ensemble, data):
    refined = tfr.refine(
        _converted(ensemble),
        *data,
        variance_ratios=(0.7,),
        steps=60,
        learning_rate=0.01,
        seed=1,
        verbose=0,
    )
    assert refined.num_members == 2
    assert np.all(refined.elbo_final > refined.elbo_init)
    # As from the models one by one.
    models = [_converted(ensemble.member(index), seed=1) for index in range(2)]
    for model in models:
        model.compile(loss=ensemble.model.loss)
    expected = tfr.refine(
        models,
        *data,
        variance_ratios=(0.7,),
        steps=60,
        learning_rate=0.01,
        seed=1,
        verbose=0,
    )
    np.testing.assert_array_equal(refined.params, expected.params)


def test_what_is_kept_is_said_once(data):
    keras.utils.set_random_seed(1)
    network = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2),
            keras.layers.PReLU(),
        ]
    )
    network.compile("adam", tfr.losses.HeteroscedasticGaussianNLL())
    ensemble = tfr.ensembles.deep_ensemble(
        network, *data, num_members=2, steps=2, seed=1, verbose=0
    )
    with pytest.warns(UserWarning, match="PReLU|p_re_lu") as caught:
        _converted(ensemble)
    assert len(caught) == 1


@pytest.mark.slow
def test_members_must_be_points(ensemble, data):
    refined = tfr.refine(
        _converted(ensemble),
        *data,
        variance_ratios=(0.7,),
        steps=1,
        seed=1,
        verbose=0,
    )
    with pytest.raises(ValueError, match="must be points"):
        _converted(refined)


def test_ensembles_of_other_weights_are_refused():
    network = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    view = functional.WeightView(network, "none")
    other = tfr.posteriors.EnsemblePosterior(
        view, np.zeros((2, 0)), view.fixed(), stacked=False
    )
    with pytest.raises(ValueError, match="must be points"):
        _converted(other)
