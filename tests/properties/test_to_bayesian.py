"""Every Keras model becomes a Bayesian one, with its own function at hand."""

import warnings

import hypothesis
import keras
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.properties import budget
from tests.properties import network_cases
from tests.properties import posteriors
from tfp_refine import layers
from tfp_refine import models

_ESTIMATORS = ("flipout", "local_reparameterization", "reparameterization")


def _inputs(model):
    rng = np.random.default_rng(0)
    (given,) = model.inputs
    if "int" in given.dtype:
        return rng.integers(0, 5, (3, *given.shape[1:]))
    return rng.normal(size=(3, *given.shape[1:])).astype(given.dtype)


def _convert(model, **arguments):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "These layers stay")
        return models.to_bayesian(model, num_train_examples=10, **arguments)


def _outputs(model, x):
    return [np.asarray(leaf) for leaf in keras.tree.flatten(model(x))]


@pytest.mark.slow
@budget.cases(10)
@hypothesis.given(
    st.data(),
    st.sampled_from(_ESTIMATORS),
    posteriors.priors(draws_weights=False),
    posteriors.families(),
    st.sampled_from(["moped", None]),
)
def test_the_means_are_the_model(
    data, estimator, regularizer, posterior, initializer
):
    network = network_cases.network(data.draw)
    before = [np.array(weight) for weight in network.weights]
    model = _convert(
        network,
        estimator=estimator,
        regularizer=regularizer,
        posterior=posterior,
        initializer=initializer,
    )
    x = _inputs(network)
    expected = _outputs(network, x)
    with layers.mean_weights():
        found = _outputs(model, x)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    for draw in _outputs(model, x):
        assert np.all(np.isfinite(draw))
    assert np.all(np.isfinite(list(map(float, model.losses))))
    for weight, value in zip(network.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    back = models.to_deterministic(model)
    for new, old in zip(back.layers, network.layers, strict=True):
        # One of a cell comes back as the layer of that cell.
        assert type(new) is type(old) or type(old) is keras.layers.RNN
    for ours, theirs in zip(_outputs(back, x), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@budget.cases(4)
@hypothesis.given(st.data(), st.floats(0.05, 0.9))
def test_dropout_of_predictions_keeps_the_means(data, rate):
    network = network_cases.network(data.draw)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*without dropout")
            model = models.to_mc_dropout(network, rate, num_train_examples=10)
    except ValueError as error:
        message = str(error)
        assert "models inside" in message or "two layers" in message, message
        return
    x = _inputs(network)
    with layers.mean_weights():
        found = _outputs(model, x)
    for ours, theirs in zip(found, _outputs(network, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    for draw in _outputs(model, x):
        assert np.all(np.isfinite(draw))
