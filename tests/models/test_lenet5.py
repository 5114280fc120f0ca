import itertools

import keras
import numpy as np
import pytest

from tests.support import layer_case
from tests.support import statistics
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import models
from tfp_refine import regularizers

# Small enough to be built in no time.
SMALL = {"widths": (2, 3, 4, 5), "num_classes": 3}


def variational(model):
    return [v for v in model.layers if isinstance(v, layers.VariationalLayer)]


def weights_of(fans_in, widths):
    """Counts kernels and biases of layers, from their fans."""
    return sum((n + 1) * m for n, m in zip(fans_in, widths, strict=True))


def images(rng, shape=(9, 7, 2), count=4):
    return rng.normal(size=(count, *shape)).astype("float32")


# Architecture.


def test_default_has_the_published_number_of_weights():
    # 28 -> 14 -> 7 by the two poolings.
    count = weights_of(
        [25 * 1, 25 * 6, 25 * 16, 7 * 7 * 120, 84], [6, 16, 120, 84, 10]
    )
    assert count == 545546
    model = models.LeNet5((28, 28, 1))
    assert functional.MeanFieldView(model).size == count
    # A mean and a scale each, and nothing else.
    sizes = [np.prod(v.shape) for v in model.trainable_weights]
    assert sum(sizes) == 2 * count
    assert model.output_shape == (None, 10)
    assert model.name == "lenet5"


def test_caffe_widths_have_the_published_number_of_weights():
    # 28 -> 24 -> 12 -> 8 -> 4.
    count = weights_of([25 * 1, 25 * 20, 4 * 4 * 50, 500], [20, 50, 500, 10])
    assert count == 431080
    options = {"widths": (20, 50, 500), "padding": "valid"}
    model = models.LeNet5((28, 28, 1), **options)
    assert functional.MeanFieldView(model).size == count
    plain = models.LeNet5(
        (28, 28, 1),
        conv_layer=keras.layers.Conv2D,
        dense_layer=keras.layers.Dense,
        **options,
    )
    assert plain.count_params() == count


def test_layers_are_those_of_the_network_in_their_order():
    model = models.LeNet5((28, 28, 1))
    assert [(v.name, v.output.shape[1:]) for v in model.layers] == [
        ("inputs", (28, 28, 1)),
        ("conv_0", (28, 28, 6)),
        ("pool_0", (14, 14, 6)),
        ("conv_1", (14, 14, 16)),
        ("pool_1", (7, 7, 16)),
        ("conv_2", (7, 7, 120)),
        ("flatten", (5880,)),
        ("hidden", (84,)),
        ("outputs", (10,)),
    ]
    *convolutions, hidden, outputs = variational(model)
    for layer in convolutions:
        assert type(layer) is layers.Conv2DFlipout
        assert layer.kernel_size == (5, 5)
        assert layer.strides == (1, 1)
        assert layer.padding == "same"
    for layer in (hidden, outputs):
        assert type(layer) is layers.DenseLocalReparameterization
    for layer in (*convolutions, hidden):
        assert layer.activation is keras.activations.relu
    assert outputs.activation is keras.activations.linear


def test_pooling_keeps_the_rim_of_odd_images():
    shapes = [
        layer.output.shape[1:3]
        for layer in models.LeNet5((9, 7, 2), **SMALL).layers[2:5:2]
    ]
    assert shapes == [(5, 4), (3, 2)]


def test_mean_weights_compute_what_the_plain_network_computes(rng):
    model = models.LeNet5((9, 7, 2), activation="tanh", **SMALL)
    for layer in variational(model):
        layer_case.spread(layer)
    plain = keras.Sequential(
        [
            keras.layers.Conv2D(2, 5, padding="same", activation="tanh"),
            keras.layers.MaxPooling2D(padding="same"),
            keras.layers.Conv2D(3, 5, padding="same", activation="tanh"),
            keras.layers.MaxPooling2D(padding="same"),
            keras.layers.Conv2D(4, 5, padding="same", activation="tanh"),
            keras.layers.Flatten(),
            keras.layers.Dense(5, activation="tanh"),
            keras.layers.Dense(3),
        ]
    )
    x = images(rng)
    plain(x)
    values = [(v.kernel, v.bias) for v in variational(model)]
    plain.set_weights(list(itertools.chain(*values)))
    expected = plain(x)
    with layers.mean_weights():
        np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-5)
    assert layer_case.differ(model(x), expected)


# Arguments.


def test_every_weight_is_random_by_default():
    for layer in variational(models.LeNet5((9, 7, 2), **SMALL)):
        assert [w.name for w in layer.variational_weights] == ["kernel", "bias"]


def test_classes_and_arguments_of_the_layers_are_passed_on():
    model = models.LeNet5(
        (9, 7, 2),
        conv_layer=layers.Conv2DReparameterization,
        dense_layer=layers.DenseFlipout,
        kernel_regularizer=regularizers.GaussianKL(0.5),
        kernel_posterior=layers.MeanFieldPosterior(0.2),
        bias_posterior=None,
        num_train_examples=12,
        name="mine",
        **SMALL,
    )
    assert model.name == "mine"
    found = variational(model)
    assert [type(layer) for layer in found] == (
        [layers.Conv2DReparameterization] * 3 + [layers.DenseFlipout] * 2
    )
    for layer in found:
        assert layer.kernel_regularizer.prior_scale == 0.5
        assert layer.kernel_posterior.initial_scale == 0.2
        assert layer.bias_posterior is None
        assert layer.num_train_examples == 12
    with_prior = models.LeNet5(
        (9, 7, 2), kernel_regularizer="empirical_bayes_kl", **SMALL
    )
    assert len(with_prior.trainable_weights) == 5 * (2 + 2 + 1)


def test_kernels_start_as_he_et_al_say():
    model = models.LeNet5((28, 28, 1), seed=0)
    kernel = np.asarray(model.get_layer("hidden").kernel)
    statistics.assert_variance(
        kernel.reshape(-1, 1), 2 / 5880, resolves_ratio=1.05
    )
    given = models.LeNet5((9, 7, 2), kernel_initializer="ones", **SMALL)
    for layer in variational(given):
        np.testing.assert_array_equal(layer.kernel, 1.0)


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((28, 28), {}, "`input_shape` .*three positive integers"),
        ((28, 28, 1), {"widths": (6, 16)}, r"`widths` .*\(6, 16\)"),
        ((28, 28, 1), {"widths": ()}, "`widths`"),
        ((28, 28, 1), {"widths": (0, 16, 84)}, "`widths` .*positive"),
        ((28, 28, 1), {"widths": 3}, "`widths` must hold positive"),
        ((28, 28, 1), {"widths": (6, 16, 0)}, "`widths` must hold positive"),
        (
            (28, 28, 1),
            {"num_classes": 0},
            "`num_classes` must be a positive integer",
        ),
        ((28, 28, 1), {"padding": "some"}, "padding"),
        ((8, 8, 1), {"padding": "valid"}, "negative|smaller|Computed output"),
    ],
)
def test_bad_arguments_are_refused(shape, options, message):
    with pytest.raises(ValueError, match=message):
        models.LeNet5(shape, **options)


# Random numbers.


@pytest.mark.parametrize("seed", [None, 4])
@pytest.mark.parametrize(
    "initializer", ["he_normal", keras.initializers.RandomNormal()]
)
def test_no_two_layers_start_from_the_same_numbers(seed, initializer):
    model = models.LeNet5(
        (8, 8, 4),
        num_classes=4,
        widths=(4, 4, 4, 4),
        seed=seed,
        kernel_initializer=initializer,
    )
    # Of one stream each, up to a factor, if the seeds were the same.
    starts = [np.ravel(layer.kernel)[:16] for layer in variational(model)]
    for one, other in itertools.combinations(starts, 2):
        assert np.ptp(one / other) > 0.1
    if seed is not None:
        assert len({layer.seed for layer in variational(model)}) == 5


def test_a_seed_fixes_weights_and_noise(rng):
    x = images(rng)

    def draw(seed):
        model = models.LeNet5(
            (9, 7, 2),
            seed=seed,
            kernel_posterior=layers.MeanFieldPosterior(0.5),
            **SMALL,
        )
        return model.get_weights(), np.asarray(model(x))

    weights, outputs = draw(1)
    again, outputs_again = draw(1)
    for one, other in zip(weights, again, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(outputs, outputs_again)
    others, _ = draw(2)
    assert not np.any(weights[0] == others[0])
    assert not np.any(draw(None)[0][0] == draw(None)[0][0])


# As a Keras model.


def test_it_survives_a_round_trip(rng, tmp_path):
    model = models.LeNet5(
        (9, 7, 2),
        kernel_regularizer=regularizers.EmpiricalBayesKL(),
        num_train_examples=12,
        **SMALL,
    )
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
            model = models.LeNet5((9, 7, 2), seed=1, **SMALL)
            with layers.mean_weights():
                outputs.append(np.asarray(model(x)))
    finally:
        keras.config.set_image_data_format(before)
    np.testing.assert_array_equal(*outputs)


@pytest.mark.slow
def test_it_learns_which_half_is_bright(rng):
    y = rng.integers(2, size=256)
    x = 0.1 * images(rng, (8, 8, 1), 256)
    x[y == 0, :4] += 1.0
    x[y == 1, 4:] += 1.0
    model = models.LeNet5((8, 8, 1), num_train_examples=256, seed=0, **SMALL)
    model.compile(
        keras.optimizers.Adam(0.02),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(x, y, batch_size=32, epochs=3, verbose=0)
    logits = model.predict(x, verbose=0)
    assert np.mean(np.argmax(logits, axis=-1) == y) > 0.95
