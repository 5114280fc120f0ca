"""Every layer trains in every mode of `fit`."""

import keras
import numpy as np
import pytest

from tests.support import attention
from tests.support import conv_layers
from tests.support import global_seed
from tfp_refine import layers

NUM_EXAMPLES, BATCH_SIZE = 12, 4
_OPTIONS = {"num_train_examples": NUM_EXAMPLES, "seed": 1}
_STEEP = layers.MeanFieldPosterior(0.3)


def _convolution(make_layer):
    """Returns a function that makes a layer, and the shape of its inputs."""
    shape = (4,) * conv_layers.rank(make_layer)
    return lambda: conv_layers.make(
        make_layer, 2, 2, kernel_posterior=_STEEP, **_OPTIONS
    ), (*shape, 2)


# Functions that make layers, and shapes of inputs.
CASES = {
    **{
        kind.__name__: (
            lambda kind=kind: kind(2, kernel_posterior=_STEEP, **_OPTIONS),
            (3,),
        )
        for kind in (
            layers.DenseReparameterization,
            layers.DenseLocalReparameterization,
            layers.DenseFlipout,
        )
    },
    **{kind.__name__: _convolution(kind) for kind in conv_layers.ALL},
    **{
        kind.__name__: (
            lambda kind=kind: kind(
                "abc,cd->abd", (2, 2), kernel_posterior=_STEEP, **_OPTIONS
            ),
            (2, 3),
        )
        for kind in (
            layers.EinsumDenseReparameterization,
            layers.EinsumDenseLocalReparameterization,
            layers.EinsumDenseFlipout,
        )
    },
    **{
        kind.__name__: (
            lambda kind=kind, sizes=sizes: attention.self_attention(
                kind(*sizes, kernel_posterior=_STEEP, **_OPTIONS)
            ),
            (2, 3),
        )
        for kind, sizes in attention.SIZES.items()
    },
    **{
        kind.__name__: (
            lambda kind=kind: kind(
                2, 2, depthwise_posterior=_STEEP, **_OPTIONS
            ),
            ((4,) * conv_layers.rank(kind) + (2,)),
        )
        for kind in conv_layers.SEPARABLE
    },
    "DenseMNF": (lambda: layers.DenseMNF(2, **_OPTIONS), (3,)),
    "Conv2DMNF": (lambda: layers.Conv2DMNF(2, 2, **_OPTIONS), (4, 4, 2)),
    "EmbeddingReparameterization": (
        lambda: layers.EmbeddingReparameterization(5, 2, **_OPTIONS),
        (4,),
    ),
    "LSTMReparameterization": (
        lambda: layers.LSTMReparameterization(2, **_OPTIONS),
        (4, 3),
    ),
    "GRUReparameterization": (
        lambda: layers.GRUReparameterization(2, **_OPTIONS),
        (4, 3),
    ),
    "MCDropout": (lambda: layers.MCDropout(0.5, seed=1), (3,)),
    "ConcreteDropout": (
        lambda: layers.ConcreteDropout(keras.layers.Dense(2), **_OPTIONS),
        (3,),
    ),
    "HomoscedasticNoise": (lambda: layers.HomoscedasticNoise(0.5), (3,)),
}
MODES = ("jit_compile", "steps_per_execution", "run_eagerly")
# That of a few layers is quick, and the others differ by their maps alone.
_QUICK = {
    ("DenseFlipout", "steps_per_execution"),
    ("DenseLocalReparameterization", "run_eagerly"),
    ("EmbeddingReparameterization", "run_eagerly"),
}


def trained(name, **options):
    """Trains a model of a layer for three steps; returns loss and weights."""
    make, shape = CASES[name]
    global_seed.set_to(0)
    rng = np.random.default_rng(0)
    integers = name.startswith("Embedding")
    x = rng.normal(size=(NUM_EXAMPLES, *shape)).astype("float32")
    if integers:
        x = rng.integers(0, 5, size=x.shape)
    inputs = keras.Input(shape, dtype="int64" if integers else None)
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(make()(inputs))
    model = keras.Model(inputs, outputs)
    before = model.get_weights()
    model.compile(keras.optimizers.SGD(0.01), "mse", **options)
    y = np.full((NUM_EXAMPLES, *outputs.shape[1:]), 3.0, "float32")
    history = model.fit(x, y, batch_size=BATCH_SIZE, shuffle=False, verbose=0)
    (loss,) = history.history["loss"]
    assert np.isfinite(loss)
    return loss, before, model.get_weights()


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param(
            name,
            mode,
            marks=[] if (name, mode) in _QUICK else pytest.mark.slow,
        )
        for name in CASES
        for mode in MODES
    ],
)
def test_it_trains_as_in_any_other_mode(name, mode):
    value = 3 if mode == "steps_per_execution" else True
    options = {"jit_compile": False, mode: value}  # not as a GPU has it
    loss, before, after = trained(name, **options)
    for old, new in zip(before, after, strict=True):
        assert np.all(np.isfinite(new))
        assert np.any(old != new)
    if mode == "jit_compile":  # XLA has random numbers of its own
        return
    expected_loss, _, expected = trained(name, jit_compile=False)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-4)
    for one, other in zip(after, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def test_there_is_a_case_of_every_layer():
    bases = {"RecurrentLayer", "SampledLayer", "VariationalLayer"}
    names = {
        name
        for name in layers.__all__
        if isinstance(kind := getattr(layers, name), type)
        and issubclass(kind, keras.layers.Layer)
    }
    assert set(CASES) == names - bases


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not:UserWarning")
@pytest.mark.parametrize(
    "name",
    ["DenseFlipout", "EmbeddingReparameterization", "GRUReparameterization"],
)
def test_posteriors_are_neither_quantized_nor_adapted(name):
    make, shape = CASES[name]
    layer = make()
    integers = name.startswith("Embedding")
    inputs = keras.Input(shape, dtype="int64" if integers else None)
    model = keras.Model(inputs, layer(inputs))
    before = model.get_weights()
    message = f"{layer.name}.* cannot be quantized.*to_deterministic"
    with pytest.raises(NotImplementedError, match=message):
        layer.quantize("int8")
    if not name.startswith("GRU"):  # whose cell has no `quantize` at all
        with pytest.warns(UserWarning, match=message):
            model.quantize("int8")
    with pytest.raises(NotImplementedError, match="no low-rank adapters.*LoRA"):
        layer.enable_lora(2)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
