"""Common behaviour of all networks of papers, on tiny ones."""

import functools
import inspect

import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tests.support import layer_case
from tfp_refine import layers
from tfp_refine import models

_IMAGE = (8, 8, 3)
# The least arguments, and names of layers that have posteriors in hybrid
# networks, and those that full ones have besides.
_NETWORKS = {
    "AlexNet": (
        {"input_shape": (13, 15, 3), "widths": (2, 3, 2, 3, 2, 4, 3)},
        ["hidden_0", "hidden_1", "outputs"],
        [f"conv_{index}" for index in range(5)],
    ),
    "ResNet18": (
        {"input_shape": _IMAGE, "filters": 2},
        [f"conv{s}_block{b}_2_conv" for s in (2, 3, 4, 5) for b in (1, 2)]
        + ["outputs"],
        [f"conv{s}_block{b}_1_conv" for s in (2, 3, 4, 5) for b in (1, 2)],
    ),
    "ShuffleNet": (
        {
            "input_shape": _IMAGE,
            "groups": 2,
            "filters": (32, 40, 48),
            "blocks": (2, 1, 1),
        },
        [
            "conv2_block1_3_conv",
            "conv2_block2_3_conv",
            "conv3_block1_3_conv",
            "conv4_block1_3_conv",
            "outputs",
        ],
        [
            f"conv{block}_{index}_conv"
            for block in ("2_block1", "2_block2", "3_block1", "4_block1")
            for index in (1, 2)
        ],
    ),
    "WideResNet": (
        {"input_shape": (5, 8, 3), "depth": 10, "width": 1},
        [f"conv{stack}_block1_2_conv" for stack in (2, 3, 4)] + ["outputs"],
        [f"conv{stack}_block1_1_conv" for stack in (2, 3, 4)],
    ),
    "VisionTransformer": (
        {
            "input_shape": _IMAGE,
            "width": 8,
            "depth": 2,
            "num_heads": 2,
            "hidden_units": 6,
        },
        ["block_0_output", "block_1_output", "outputs"],
        [
            f"block_{i}_{part}"
            for i in (0, 1)
            for part in ("attention", "hidden")
        ],
    ),
    "TextTransformer": (
        {
            "vocabulary_size": 9,
            "length": 5,
            "width": 8,
            "depth": 1,
            "num_heads": 2,
            "hidden_units": 6,
        },
        ["block_0_output", "outputs"],
        ["block_0_attention", "block_0_hidden"],
    ),
}
_ALL = pytest.mark.parametrize("name", _NETWORKS)
# The others take seconds each.
_QUICK = ("AlexNet", "TextTransformer")
_EACH = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in _QUICK else pytest.mark.slow)
        for name in _NETWORKS
    ],
)


def make(name, **arguments):
    given, *_ = _NETWORKS[name]
    arguments = {"num_classes": 3, "num_train_examples": 12, **arguments}
    return getattr(models, name)(**given, **arguments)


def inputs_of(name, rng, count=4):
    given, *_ = _NETWORKS[name]
    if "length" in given:
        x = rng.integers(1, given["vocabulary_size"], (count, given["length"]))
        x[: count // 2, 3:] = 0
        x[0] = 0  # a text without tokens
        return x.astype("int32")
    return rng.normal(size=(count, *given["input_shape"])).astype("float32")


def with_posteriors(model):
    """Returns names of layers; projections are of the attention around them."""
    return {layer.name for layer in model.layers if hasattr(layer, "kl_scale")}


def spread(model):
    """Moves all weights, those of batch normalization too, from their start."""
    rng = np.random.default_rng(5)
    for layer in model._flatten_layers():
        if getattr(layer, "variational_weights", ()):
            layer_case.spread(layer)
        elif isinstance(layer, keras.layers.BatchNormalization):
            layer.set_weights(
                [rng.uniform(0.5, 1.0, v.shape) for v in layer.weights]
            )
    return model


def mean_outputs(model, x):
    with layers.mean_weights():
        return np.asarray(model(x))


@pytest.mark.slow
@_ALL
def test_posteriors_are_where_a_variant_says(name):
    _, hybrid, more = _NETWORKS[name]
    for variational, expected in (
        ("hybrid", hybrid),
        ("full", hybrid + more),
    ):
        model = make(name, variational=variational)
        assert with_posteriors(model) == set(expected)
        assert model.output_shape == (None, 3)


@_EACH
def test_files_and_plain_copies_compute_the_same(name, rng, tmp_path):
    model = spread(make(name, variational="full"))
    x = inputs_of(name, rng)
    expected = mean_outputs(model, x)
    assert np.isfinite(expected).all()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(mean_outputs(loaded, x), expected)
    plain = models.to_deterministic(model)
    assert with_posteriors(plain) == set()
    assert not with_posteriors(make(name, variational="none"))
    np.testing.assert_array_equal(plain(x), expected)
    assert layer_case.differ(model(x), expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:These layers stay without posteriors")
@_ALL
def test_plain_networks_become_bayesian(name, rng):
    plain = make(name, variational="none")
    x = inputs_of(name, rng)
    bayesian = models.to_bayesian(plain, num_train_examples=12)
    _, hybrid, more = _NETWORKS[name]
    assert with_posteriors(bayesian) >= set(hybrid + more)
    np.testing.assert_array_equal(mean_outputs(bayesian, x), plain(x))


@pytest.mark.slow
@_EACH
def test_a_seed_fixes_weights_and_noise(name, rng):
    x = inputs_of(name, rng)

    def draw(seed):
        model = make(name, variational="full", seed=seed)
        return [np.asarray(v) for v in model.weights], np.asarray(model(x))

    weights, outputs = draw(1)
    again, outputs_again = draw(1)
    for one, other in zip(weights, again, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(outputs, outputs_again)
    others, _ = draw(2)
    drawn = [
        (one, other)
        for one, other in zip(weights, others, strict=True)
        if np.ptp(one) > 0 and one.dtype.kind == "f"
    ]
    assert drawn
    assert not any(np.array_equal(one, other) for one, other in drawn)


@pytest.mark.slow
@_ALL
def test_it_is_fitted_and_refined(name, rng):
    model = make(name, bias_posterior=None, seed=1)
    x, y = inputs_of(name, rng, 12), np.arange(12) % 3
    model.compile("adam", tfr.losses.CategoricalNLL(), jit_compile=False)
    history = model.fit(x, y, batch_size=4, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    ensemble = tfr.refine(
        model,
        x,
        y,
        num_members=1,
        variance_ratios=(0.5,),
        steps=2,
        batch_size=4,
        seed=1,
        verbose=0,
    )
    probs = ensemble.predict_proba(x, 3)
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0, rtol=1e-5)


@pytest.mark.slow
@_ALL
def test_it_computes_in_half_precision(name, rng):
    x = inputs_of(name, rng)
    single = make(name, variational="full", seed=1)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        half = make(name, variational="full", seed=1)
    finally:
        keras.config.set_dtype_policy(before)
    assert half.compute_dtype == "bfloat16"
    assert {v.dtype for v in half.trainable_weights} == {"float32"}
    half.set_weights(single.get_weights())
    expected = mean_outputs(single, x)
    np.testing.assert_allclose(
        mean_outputs(half, x).astype("float32"),
        expected,
        atol=0.1 * np.abs(expected).max(),
    )


def test_padding_of_texts_changes_nothing(rng):
    model = spread(make("TextTransformer"))
    longer = models.TextTransformer(
        **{**_NETWORKS["TextTransformer"][0], "length": 7},
        num_classes=3,
        num_train_examples=12,
    )
    weights = model.get_weights()
    for index, value in enumerate(longer.get_weights()):
        if value.shape != weights[index].shape:  # of positions
            value[: len(weights[index])] = weights[index]
            weights[index] = value
    longer.set_weights(weights)
    x = inputs_of("TextTransformer", rng)
    np.testing.assert_allclose(
        mean_outputs(longer, np.pad(x, [(0, 0), (0, 2)])),
        mean_outputs(model, x),
        rtol=1e-5,
        atol=1e-5,
    )


def test_channels_are_shuffled_between_groups(rng):
    model = make("ShuffleNet", variational="none")
    block = keras.Model(
        model.get_layer("conv2_block1_shuffle_split").input,
        model.get_layer("conv2_block1_shuffle_merge").output,
    )
    x = rng.normal(size=(2, *block.input_shape[1:])).astype("float32")
    order = [0, 4, 1, 5, 2, 6, 3, 7]  # of two groups of four
    np.testing.assert_array_equal(block(x), x[..., order])


@_EACH
def test_classes_of_layers_are_chosen(name):
    chosen = {
        "conv_layer": layers.Conv2DReparameterization,
        "depthwise_layer": layers.DepthwiseConv2DReparameterization,
        "dense_layer": functools.partial(
            layers.DenseReparameterization, use_bias=False
        ),
        "attention_layer": layers.MultiHeadAttentionReparameterization,
    }
    known = inspect.signature(getattr(models, name)).parameters
    chosen = {key: chosen[key] for key in chosen.keys() & known.keys()}
    model = make(
        name,
        variational="full",
        kernel_regularizer=tfr.regularizers.GaussianKL(0.5),
        **chosen,
    )
    kinds = {getattr(kind, "func", kind) for kind in chosen.values()}
    made = [layer for layer in model.layers if hasattr(layer, "kl_scale")]
    assert {type(layer) for layer in made} == kinds
    for layer in model._flatten_layers():
        for weight in getattr(layer, "variational_weights", ()):
            if weight.name == "kernel":
                assert float(weight.prior.scale) == 0.5


@_ALL
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 0}, "`num_classes` must be a positive integer"),
        ({"variational": "half"}, "`variational` must be one of.*'half'"),
    ],
)
def test_bad_arguments_are_refused(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(name, **arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("AlexNet", {"input_shape": (12, 32, 3)}, "at least 13 x 13.*12, 32"),
        ("AlexNet", {"input_shape": (32, 32)}, "three positive integers"),
        ("AlexNet", {"widths": (3, 3)}, r"`widths` .*five.*\(3, 3\)"),
        ("ResNet18", {"input_shape": (7, 8, 3)}, "at least 8 x 8.*7, 8, 3"),
        ("ResNet18", {"stem": "large"}, r"at least 32 x 32.*\(8, 8, 3\)"),
        ("ResNet18", {"stem": "wide"}, "`stem` must be one of.*'wide'"),
        ("ResNet18", {"filters": 0}, "`filters` must be a positive integer"),
        ("ShuffleNet", {"input_shape": (8, 7, 3)}, "at least 8 x 8.*8, 7, 3"),
        ("ShuffleNet", {"groups": 5}, "`groups` must divide 24.*groups=5"),
        ("ShuffleNet", {"groups": 3}, r"`groups` must divide.*\(32, 40, 48\)"),
        ("ShuffleNet", {"filters": (40, 32, 48)}, "`filters` .*that grow"),
        ("ShuffleNet", {"filters": (32, 40)}, "`filters` must hold three"),
        ("ShuffleNet", {"blocks": (1, 1)}, r"`blocks` .*three.*\(1, 1\)"),
        ("WideResNet", {"input_shape": (3, 8, 3)}, "at least 4 x 4.*3, 8, 3"),
        ("WideResNet", {"depth": 20}, "`depth` must be 6 n \\+ 4.*20"),
        ("WideResNet", {"width": 0}, "`width` must be a positive integer"),
        ("VisionTransformer", {"patch_size": 3}, "`patch_size` .*divide.*=3"),
        ("VisionTransformer", {"num_heads": 3}, "`num_heads` must divide.*=3"),
        ("VisionTransformer", {"depth": 0}, "`depth` must be a positive"),
        ("TextTransformer", {"num_heads": 3}, "`num_heads` must divide.*=3"),
        ("TextTransformer", {"length": 0}, "`length` must be a positive"),
    ],
)
def test_bad_sizes_are_refused(name, arguments, message):
    given, *_ = _NETWORKS[name]
    with pytest.raises(ValueError, match=message):
        getattr(models, name)(**{**given, **arguments})
