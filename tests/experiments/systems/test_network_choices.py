"""Networks have the noise, activation and start that fields choose."""

import inspect

import keras
import numpy as np
import pytest

from tfp_refine import layers
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


def test_priors_are_optimized_after_segments_of_a_training(data):
    config = _config(prior_warmup=2, prior_scale="0.5")
    network, model = _build("optimized(iblm)", config, data)
    (callback,) = networks.callbacks_of(network, config)
    assert (callback.warmup, callback.every, callback.frequency) == (
        2, 1, "epoch"
    )  # fmt: skip
    callback.set_model(model)
    weight = model.get_layer("hidden_0").variational_weights[0]
    callback.on_train_begin()
    start = float(weight.prior_weights[0])
    for epoch, has_changed in enumerate((False, True)):
        callback.on_epoch_begin(epoch)
        callback.on_epoch_end(epoch)
        assert (float(weight.prior_weights[0]) != start) == has_changed
    assert networks.callbacks_of(networks.Network("vi"), config) == []


# Networks of papers, at sizes that take no time.
_TINY = {
    "alexnet": {"widths": (2, 2, 2, 2, 2, 2, 2)},
    "resnet18": {"filters": 2},
    "shufflenet": {"groups": 2, "filters": (32, 40, 48), "blocks": (1, 1, 1)},
    "vision_transformer": {"width": 6, "depth": 1, "hidden_units": 3},
    "wide_resnet": {"depth": 10, "width": 1},
}


class _Images:
    num_classes = 3
    is_regression = False

    def __init__(self, size):
        self.train = np.zeros((9, size, size, 3), "float32"), np.zeros(9)


def _small(name):
    """Returns the function of a network with other defaults."""
    kind = networks._LARGE[name]

    def build(*arguments, **options):
        return kind(*arguments, **{**_TINY[name], **options})

    build.__signature__ = inspect.signature(kind)
    return build


def _build_images(monkeypatch, name, system, size=16, **changes):
    monkeypatch.setitem(networks._LARGE, name, _small(name))
    config = fields.Bench(model=name, **changes)
    shape = (size, size, 3)
    config = config.with_defaults(config.after_data("images", shape, 9))
    networks.check_model(config, "images")
    return _build(system, config, _Images(size))[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", _TINY)
def test_networks_of_papers_are_built_by_name(monkeypatch, name):
    assert set(_TINY) == set(networks._LARGE)
    plain = _build_images(monkeypatch, name, "map")
    model = _build_images(monkeypatch, name, "cm", dense_estimator="flipout")
    assert plain.output_shape == model.output_shape == (None, 3)
    assert not any(hasattr(layer, "kl_scale") for layer in plain.layers)
    found = [layer for layer in model.layers if hasattr(layer, "kl_scale")]
    assert {layer.num_train_examples for layer in found} == {9}
    assert type(found[-1]) is layers.DenseFlipout
    is_full = name == "alexnet"
    weighty = (keras.layers.Conv2D, keras.layers.Dense)
    has_plain = any(isinstance(layer, weighty) for layer in model.layers)
    assert has_plain != is_full


def test_attention_and_depthwise_layers_have_the_chosen_estimators(
    monkeypatch,
):
    changes = {
        "variational": "full",
        "conv_estimator": "reparameterization",
        "dense_estimator": "local_reparameterization",
    }
    found = {
        type(layer)
        for name in ("shufflenet", "vision_transformer")
        for layer in _build_images(monkeypatch, name, "vi", **changes).layers
        if hasattr(layer, "kl_scale")
    }
    assert found == {
        layers.Conv2DReparameterization,
        layers.DepthwiseConv2DReparameterization,
        layers.DenseLocalReparameterization,
        layers.MultiHeadAttentionLocalReparameterization,
    }


def test_large_images_have_the_first_layers_of_large_ones(monkeypatch):
    for size, kernel in ((32, 3), (96, 7)):
        model = _build_images(monkeypatch, "resnet18", "map", size)
        assert model.get_layer("conv1").kernel_size == (kernel, kernel)


def test_widths_of_alexnet_are_chosen(monkeypatch):
    widths = (2, 3, 4, 5, 6, 7, 8)
    for system in ("map", "vi"):
        model = _build_images(monkeypatch, "alexnet", system, widths=widths)
        outputs = [
            layer.output.shape[-1]
            for layer in model.layers
            if layer.name.startswith(("conv_", "hidden_"))
        ]
        assert tuple(outputs) == widths
    for name, given in (("resnet18", widths), ("alexnet", widths[1:])):
        with pytest.raises(ValueError, match=f"--widths must be.*={name}"):
            _build_images(monkeypatch, name, "map", widths=given)


def test_networks_of_papers_have_no_multiplicative_layers(monkeypatch):
    with pytest.raises(ValueError, match="alexnet has no multiplicative"):
        _build_images(monkeypatch, "alexnet", "mnf")
    with pytest.raises(ValueError, match="--batch_norm.*ResNets"):
        _build_images(monkeypatch, "wide_resnet", "map", batch_norm=True)
