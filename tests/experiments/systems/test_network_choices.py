"""Networks have the noise, activation and start that fields choose."""

import numpy as np
import pytest

from tfp_refine.experiments.data import functions
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.systems import networks
from tfp_refine.experiments.systems import registry


@pytest.fixture
def data():
    return functions.load(np.sin, 40, 0, reach=2.0, noise=0.5, end=3.0)


def _config(**changes):
    config = fields.Bench(hidden=(3,), noise_scale=0.25, **changes)
    return config.with_defaults(config.after_data("regression", (1,), 40))


def _build(system, config, data):
    network = registry.network_of(registry.parse(system, fields.Bench))
    return network, networks.build(network, config, data, 0)


@pytest.mark.parametrize("system", ["map", "vi", "mnf", "mc_dropout"])
def test_known_noise_is_not_learned(data, system):
    for learned in (True, False):
        _, model = _build(system, _config(learn_noise=learned), data)
        names = [weight.path for weight in model.trainable_weights]
        assert any("noise/" in name for name in names) == learned
        raw = np.asarray(model(data.train[0]))[:, 1]
        np.testing.assert_allclose(np.log1p(np.exp(raw)), 0.25, rtol=1e-5)


def test_hidden_layers_have_the_chosen_activation(data):
    for name in ("relu", "tanh"):
        _, model = _build("vi", _config(activation=name), data)
        assert model.get_layer("hidden_0").activation.__name__ == name
    config = _config(activation="tanh", model="resnet20")
    with pytest.raises(ValueError, match="--activation is for --model=mlp"):
        networks.check_model(config, "images")


def test_the_variant_of_the_paper_is_another_start(data):
    starts = []
    for system in ("iblm", "iblm_paper", "iblm"):
        config = _config(prior_scale="he", progress=False)
        network, model = _build(system, config, data)
        networks.compile_network(model, config, data, 10)
        networks.initialize(network, config, model, data, 0)
        layer = model.get_layer("hidden_0")
        starts.append(np.asarray(layer.variational_weights[0].loc))
    np.testing.assert_array_equal(starts[0], starts[2])
    assert not np.allclose(starts[0], starts[1])
