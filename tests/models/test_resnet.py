import itertools

import keras
import numpy as np
import pytest

from tests.support import statistics
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import models
from tfp_refine import regularizers

STACKS = (16, 32, 64)

_VARIANTS = pytest.mark.parametrize("variational", ["none", "hybrid", "full"])


def small(shape=(8, 8, 3), **arguments):
    """Builds the smallest network: one block in each stack."""
    return models.ResNet(shape, **{"num_classes": 4, "depth": 8, **arguments})


def images(rng, shape=(8, 8, 3), count=4):
    return rng.normal(size=(count, *shape)).astype("float32")


def bayesian(model):
    return [v for v in model.layers if isinstance(v, layers.VariationalLayer)]


def deterministic(model):
    return [
        layer
        for layer in model.layers
        if type(layer) in (keras.layers.Conv2D, keras.layers.Dense)
    ]


def block_kernels(num_blocks):
    """Counts weights of the first and second kernels of each block."""
    sizes = []
    for before, filters in zip((16, *STACKS), STACKS, strict=False):
        for block in range(num_blocks):
            channels = filters if block else before
            sizes.append((9 * channels * filters, 9 * filters * filters))
    return sizes


def count_deterministic(num_blocks, channels, num_classes):
    stem = 9 * channels * 16 + 16
    blocks = sum(map(sum, block_kernels(num_blocks)))
    biases = 2 * num_blocks * sum(STACKS)
    projections = (16 * 32 + 32) + (32 * 64 + 64)
    return stem + blocks + biases + projections + 64 * num_classes + num_classes


# Architecture.


@pytest.mark.slow
def test_ordinary_network_has_the_published_number_of_weights():
    count = count_deterministic(num_blocks=3, channels=3, num_classes=10)
    assert count == 271690
    model = models.ResNet20((32, 32, 3), variational="none")
    assert model.count_params() == count
    assert model.output_shape == (None, 10)
    assert model.name == "resnet20"
    # Two of each block's filters: scale, offset, mean and variance.
    with_norm = models.ResNet20(
        (32, 32, 3), variational="none", batch_norm=True
    )
    count += 4 * 2 * 3 * sum(STACKS)
    assert count == 274378
    assert with_norm.count_params() == count


@pytest.mark.parametrize(
    ("variational", "pick"), [("hybrid", lambda s: s[1]), ("full", sum)]
)
def test_every_random_weight_has_a_scale_besides(variational, pick):
    random = 64 * 10 + sum(map(pick, block_kernels(3)))
    assert random == {"hybrid": 145792, "full": 267904}[variational]
    model = models.ResNet20((32, 32, 3), variational=variational)
    assert functional.MeanFieldView(model).size == random
    trainable = sum(np.prod(v.shape) for v in model.trainable_weights)
    assert trainable == count_deterministic(3, 3, 10) + random


@pytest.mark.slow
@pytest.mark.parametrize("variational", ["none", "hybrid", "full"])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_random_are_the_layers_that_the_paper_says(variational, batch_norm):
    model = models.ResNet(
        (8, 8, 3), depth=14, variational=variational, batch_norm=batch_norm
    )
    indices = {"none": (), "hybrid": (2,), "full": (1, 2)}[variational]
    expected = [
        f"conv{stack}_block{block}_{index}_conv"
        for stack in (2, 3, 4)
        for block in (1, 2)
        for index in indices
    ]
    expected += ["outputs"] if indices else []
    assert [layer.name for layer in bayesian(model)] == expected
    for layer in bayesian(model):
        assert [w.name for w in layer.variational_weights] == ["kernel"]
        is_last = layer.name == "outputs"
        assert type(layer) is (
            layers.DenseLocalReparameterization
            if is_last
            else layers.Conv2DFlipout
        )
    names = [layer.name for layer in deterministic(model)]
    assert {"conv1_conv", "conv3_block1_0_conv", "conv4_block1_0_conv"} <= set(
        names
    )
    # All layers with weights: stem, two a block, two projections, outputs.
    assert len(names) + len(expected) == 1 + 2 * 6 + 2 + 1


def test_batch_normalization_follows_the_convolutions_of_blocks_only():
    model = models.ResNet((8, 8, 3), depth=14, batch_norm=True)
    assert not any("bn" in layer.name for layer in small().layers)
    found = [
        layer
        for layer in model.layers
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    assert len(found) == 12
    for layer in found:
        (node,) = layer._inbound_nodes
        before = node.input_tensors[0]._keras_history.operation
        assert before.name == layer.name.replace("_bn", "_conv")
        assert before.name.endswith(("_1_conv", "_2_conv"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((32, 32, 3), [(32, 32), (16, 16), (8, 8)]),
        ((9, 7, 2), [(9, 7), (5, 4), (3, 2)]),
        ((1, 2, 1), [(1, 2), (1, 1), (1, 1)]),
    ],
)
def test_last_two_stacks_halve_the_image(rng, shape, sizes):
    model = models.ResNet(shape, 4, depth=14)
    outputs = [
        model.get_layer(f"conv{stack}_block{block}_out").output.shape
        for stack in (2, 3, 4)
        for block in (1, 2)
    ]
    assert outputs == [
        (None, *size, filters)
        for size, filters in zip(sizes, STACKS, strict=True)
        for _ in range(2)
    ]
    assert model(images(rng, shape)).shape == (4, 4)


@pytest.mark.parametrize(
    "depth", [8, 14, 20, pytest.param(32, marks=pytest.mark.slow)]
)
def test_depth_counts_the_layers_on_the_way_through(depth):
    model = models.ResNet((4, 4, 1), depth=depth)
    layers_with_weights = [
        layer
        for layer in bayesian(model) + deterministic(model)
        if not layer.name.endswith("_0_conv")
    ]
    assert len(layers_with_weights) == depth
    assert model.name == f"resnet{depth}"
    assert models.ResNet((4, 4, 1), depth=depth, name="mine").name == "mine"


# Initial values and penalties.


@_VARIANTS
def test_activation_is_selu_of_a_bayesian_network_and_can_be_chosen(
    variational,
):
    expected = "relu" if variational == "none" else "selu"
    for options in ({}, {"activation": "tanh"}):
        model = small(variational=variational, **options)
        found = [
            layer.activation
            for layer in model.layers
            if isinstance(layer, keras.layers.Activation)
        ]
        wanted = keras.activations.get(options.get("activation", expected))
        assert found == [wanted] * (1 + 2 * 3)
        for layer in bayesian(model) + deterministic(model):
            assert layer.activation is keras.activations.linear


@pytest.mark.parametrize("depth", [8, 20])
def test_kernels_start_as_he_et_al_say_shrunk_in_random_convolutions(depth):
    model = models.ResNet(
        (8, 8, 3), depth=depth, variational="full", seed=depth
    )
    stddevs = np.sqrt(2.0) * np.array([1.0, depth**-0.25])
    for group, stddev in zip(
        (deterministic(model), bayesian(model)), stddevs, strict=True
    ):
        draws = []
        for layer in group:
            if layer.name == "outputs":
                continue
            kernel = np.asarray(layer.kernel)
            fan_in = np.prod(kernel.shape[:-1])
            draws.append(np.ravel(kernel) * np.sqrt(fan_in))
        draws = np.concatenate(draws)[:, np.newaxis]
        statistics.assert_mean(draws, 0.0, resolves=0.4)
        # Sees a missing depth**(-1/4), a factor of 2.8 or more.
        statistics.assert_variance(draws, stddev**2, resolves_ratio=1.4)
    outputs = np.ravel(model.get_layer("outputs").kernel)[:, np.newaxis]
    statistics.assert_variance(outputs, 2 / 64, resolves_ratio=2.2)


def test_biases_of_random_layers_start_from_small_random_numbers():
    model = models.ResNet20((8, 8, 3), variational="full", seed=1)
    biases = [np.asarray(layer.bias) for layer in bayesian(model)]
    draws = np.concatenate(biases)[:, np.newaxis]
    statistics.assert_mean(draws, 0.0, resolves=0.05)
    statistics.assert_variance(draws, 0.1**2, resolves_ratio=2.2)
    for one, other in itertools.combinations(biases, 2):
        assert not np.any(one[:10] == other[:10])
    for layer in deterministic(model):
        np.testing.assert_array_equal(layer.bias, 0.0)


@_VARIANTS
def test_penalty_is_that_of_deterministic_kernels_only(variational):
    model = small(variational=variational, kernel_regularizer=None, l2=0.02)
    found = [layer.name for layer in model.layers if layer.losses]
    assert found == [layer.name for layer in deterministic(model)]
    expected = 0.02 * sum(
        np.sum(np.square(layer.kernel)) for layer in deterministic(model)
    )
    np.testing.assert_allclose(sum(model.losses), expected, rtol=1e-5)


def test_default_penalty_is_the_papers():
    for layer in deterministic(small()):
        assert type(layer.kernel_regularizer) is keras.regularizers.L2
        np.testing.assert_allclose(layer.kernel_regularizer.l2, 1e-4)


# Arguments.


def test_classes_and_arguments_of_the_layers_are_passed_on():
    model = small(
        variational="full",
        conv_layer=layers.Conv2DReparameterization,
        dense_layer=layers.DenseFlipout,
        kernel_regularizer=regularizers.GaussianKL(0.5),
        kernel_initializer="ones",
        kernel_posterior=layers.MeanFieldPosterior(0.2),
        bias_posterior="mean_field",
        num_train_examples=12,
    )
    found = bayesian(model)
    assert [type(layer) for layer in found] == (
        [layers.Conv2DReparameterization] * 6 + [layers.DenseFlipout]
    )
    for layer in found:
        assert layer.kernel_regularizer.prior_scale == 0.5
        assert layer.kernel_posterior.initial_scale == 0.2
        assert isinstance(layer.bias_posterior, layers.MeanFieldPosterior)
        assert layer.num_train_examples == 12
        np.testing.assert_array_equal(layer.kernel, 1.0)
    for layer in deterministic(model):
        assert np.ptp(layer.kernel) > 0.0


def test_resnet20_takes_the_arguments_of_resnet():
    model = models.ResNet20((4, 4, 1), 3, variational="none", l2=0.5)
    assert model.output_shape == (None, 3)
    assert deterministic(model)[0].kernel_regularizer.l2 == 0.5
    with pytest.raises(TypeError, match="depth"):
        models.ResNet20((4, 4, 1), depth=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_shape": (8, 8)}, "`input_shape` .*three positive integers"),
        ({"depth": 2}, "`depth` must be 6 n"),
        ({"depth": 9}, "`depth` must be 6 n .*depth=9"),
        ({"depth": 18}, "`depth` must be 6 n"),
        ({"depth": -4}, "`depth` must be a positive integer"),
        ({"depth": 20.0}, "`depth` must be a positive integer"),
        ({"variational": "partial"}, "`variational` .*'partial'"),
        ({"variational": None}, "`variational` must be one of .*None"),
        ({"variational": False}, "`variational` must be one of .*False"),
        ({"num_classes": 0}, "`num_classes` must be a positive integer"),
        ({"l2": -1.0}, "l2"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        models.ResNet(**{"input_shape": (8, 8, 3), **options})


# Random numbers.


@pytest.mark.parametrize("seed", [None, 4])
def test_no_two_layers_start_from_the_same_numbers(seed):
    model = small(variational="full", seed=seed)
    # Of one stream each, up to a factor, if the seeds were the same.
    starts = [
        np.ravel(layer.kernel)[:64]
        for layer in bayesian(model) + deterministic(model)
    ]
    assert len(starts) == 10
    for one, other in itertools.combinations(starts, 2):
        assert np.ptp(one / other) > 0.1
    if seed is not None:
        seeds = [layer.seed for layer in bayesian(model)]
        assert len(set(seeds)) == len(seeds)


def test_a_seed_fixes_weights_and_noise(rng):
    x = images(rng)

    def draw(seed):
        model = small(
            seed=seed, kernel_posterior=layers.MeanFieldPosterior(0.5)
        )
        return model.get_weights(), np.asarray(model(x))

    weights, outputs = draw(1)
    again, outputs_again = draw(1)
    for one, other in zip(weights, again, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(outputs, outputs_again)
    assert not np.any(weights[0] == draw(2)[0][0])
    assert not np.any(draw(None)[0][0] == draw(None)[0][0])


# As a Keras model.


def test_it_survives_a_round_trip(rng, tmp_path):
    model = small(
        batch_norm=True,
        kernel_regularizer=regularizers.EmpiricalBayesKL(),
        num_train_examples=12,
    )
    model(images(rng), training=True)  # which moves the batch statistics
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for one, other in zip(loaded.layers, model.layers, strict=True):
        assert one.get_config() == other.get_config()
    x = images(rng)
    with layers.mean_weights():
        np.testing.assert_array_equal(loaded(x), model(x))


def test_it_is_the_same_where_keras_puts_channels_first(rng):
    x = images(rng)
    before = keras.config.image_data_format()
    outputs = []
    try:
        for data_format in ("channels_last", "channels_first"):
            keras.config.set_image_data_format(data_format)
            model = small(seed=1, batch_norm=True)
            with layers.mean_weights():
                outputs.append(np.asarray(model(x)))
    finally:
        keras.config.set_image_data_format(before)
    np.testing.assert_array_equal(*outputs)
