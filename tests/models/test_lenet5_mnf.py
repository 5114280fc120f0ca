import keras
import numpy as np
import pytest

from tfp_refine import layers
from tfp_refine import models


def test_it_is_the_papers_network():
    model = models.LeNet5MNF((28, 28, 1), num_train_examples=100, seed=0)
    kernels = {
        layer.name: tuple(layer.kernel.shape)
        for layer in model.layers
        if isinstance(layer, layers.VariationalLayer)
    }
    assert kernels == {
        "conv_0": (5, 5, 1, 20),
        "conv_1": (5, 5, 20, 50),
        "hidden": (800, 500),
        "outputs": (500, 10),
    }
    for name in kernels:
        layer = model.get_layer(name)
        is_conv = name.startswith("conv")
        assert isinstance(
            layer, layers.Conv2DMNF if is_conv else layers.DenseMNF
        )
        assert layer.max_std == 0.5
    assert model.name == "lenet5_mnf"
    assert model.output_shape == (None, 10)


@pytest.mark.slow
@pytest.mark.parametrize("flow_length", [0, 2])
def test_arguments_reach_the_layers_and_it_trains(flow_length):
    model = models.LeNet5MNF(
        (8, 8, 1),
        3,
        widths=(2, 3, 4),
        padding="same",
        flow_length=flow_length,
        flow_units=5,
        auxiliary_flow_units=6,
        max_std=0.3,
        num_train_examples=16,
        seed=0,
    )
    for layer in model.layers:
        if isinstance(layer, layers.VariationalLayer):
            config = layer.get_config()
            assert config["flow_length"] == flow_length
            assert config["max_std"] == 0.3
    model.compile(
        "adam",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    rng = np.random.default_rng(0)
    history = model.fit(
        rng.normal(size=(16, 8, 8, 1)), rng.integers(3, size=16), verbose=0
    ).history
    assert np.isfinite(history["loss"][0])


def test_seeds_fix_flows_and_draws():
    def make(seed):
        return models.LeNet5MNF(
            (8, 8, 1), 3, widths=(2, 3, 4), padding="same", seed=seed
        )

    first, again, other = make(0), make(0), make(1)
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 1))
    np.testing.assert_array_equal(first(x), again(x))
    random = 0
    for one, same, another in zip(
        first.trainable_weights,
        again.trainable_weights,
        other.trainable_weights,
        strict=True,
    ):
        np.testing.assert_array_equal(one, same)
        random += np.any(np.asarray(one) != np.asarray(another))
    # Of each of the four layers: kernel, two flows of two, z and auxiliary.
    assert random == 4 * 7
