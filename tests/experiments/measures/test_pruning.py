"""The systems whose hidden units can be removed."""

import types

import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tfp_refine import layers
from tfp_refine.experiments import image
from tfp_refine.experiments.measures import pruning
from tfp_refine.experiments.systems import registry


class Subject:
    """A system that nobody has fitted."""

    def __init__(self, system, **fields):
        self.expression = registry.parse(system, image.Config)
        network = registry.network_of(self.expression)
        self.fit = types.SimpleNamespace(network=network)
        self.config = image.Config(
            **{"model": "mlp", "pruning": True} | fields, dataset="digits"
        )

    @property
    def fitted(self):
        raise AssertionError("A system is fitted to decide if it is pruned.")


@pytest.mark.parametrize("system", ["vi", "fflu", "cm(iblm)", "flipout"])
def test_variational_networks_are_pruned(system):
    assert pruning.applies(Subject(system))
    assert pruning.applies(Subject(system, model="lenet5"))


@pytest.mark.parametrize(
    "system", ["map", "mc_dropout", "mnf", "fv", "k_tied", "refined", "laplace"]
)
def test_other_systems_are_not_pruned(system):
    assert not pruning.applies(Subject(system))


def test_pruning_must_be_asked_for_and_units_have_one_way_on():
    assert not pruning.applies(Subject("vi", pruning=False))
    assert not pruning.applies(Subject("vi", model="resnet20"))


def test_units_are_removed_and_come_back():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((3,)), _layer(4, "hidden", "tanh"), _layer(2, "outputs")]
    )
    x = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")

    def draws(x):
        with layers.mean_weights():
            return np.asarray(model(x))[np.newaxis]

    labels, before = draws(x)[0].argmax(axis=-1), model.get_weights()
    found, details = pruning.prune(
        types.SimpleNamespace(
            fitted=types.SimpleNamespace(model=model, draws=draws),
            data=types.SimpleNamespace(test=(x, labels)),
        )
    )
    pruned = details["pruning"]
    assert list(pruned["layers"]) == ["hidden", "outputs"]
    assert list(pruned["units"]) == list(pruned["pruned"]) == ["hidden"]
    assert found["pruned_units"] == sum(pruned["pruned"].values())
    variances = list(pruned["prior_variances"].values())
    np.testing.assert_allclose(variances, 0.04, rtol=1e-6)
    curve = pruned["curve"]
    assert curve["removed"] == [0, 1, 2, 3]
    loss = tfr.metrics.negative_log_likelihood(
        labels, draws(x), from_logits=True
    )
    assert curve["nll"][0] == loss < curve["nll"][-1]
    for now, then in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


def _layer(units, name, activation=None):
    return layers.DenseReparameterization(
        units,
        activation,
        name=name,
        num_train_examples=10,
        kernel_posterior=layers.MeanFieldPosterior(0.1),
        kernel_regularizer=tfr.regularizers.GaussianKL(0.2),
    )
