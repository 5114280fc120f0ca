import keras
import numpy as np
import pytest

from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import models
from tfp_refine import regularizers


def variational(model):
    return [layer for layer in model.layers if hasattr(layer, "kl_scale")]


def test_it_is_the_network_that_was_asked_for(rng):
    model = models.MLP((3,), 2, hidden=(5, 4), activation="tanh")
    assert model.output_shape == (None, 2)
    found = variational(model)
    assert [type(layer) for layer in found] == (
        [layers.DenseLocalReparameterization] * 3
    )
    assert [layer.units for layer in found] == [5, 4, 2]
    assert [layer.name for layer in found] == [
        "hidden_0",
        "hidden_1",
        "outputs",
    ]
    x = rng.normal(size=(6, 3)).astype("float32")
    first, second, last = (
        (np.asarray(layer.kernel), np.asarray(layer.bias)) for layer in found
    )
    expected = np.tanh(x @ first[0] + first[1])
    expected = np.tanh(expected @ second[0] + second[1]) @ last[0] + last[1]
    with layers.mean_weights():
        np.testing.assert_allclose(model(x), expected, rtol=1e-4, atol=1e-5)


def test_the_default_has_one_relu_layer_of_fifty():
    model = models.MLP((3,))
    hidden, outputs = variational(model)
    assert (hidden.units, outputs.units) == (50, 1)
    assert hidden.activation is keras.activations.relu
    assert outputs.activation is keras.activations.linear
    assert model.name == "mlp"


def test_no_hidden_layer_is_a_linear_model():
    (layer,) = variational(models.MLP((3,), 2, hidden=()))
    assert layer.kernel.shape == (3, 2)


def test_images_are_flattened(rng):
    model = models.MLP((4, 4, 2), 10, hidden=(3,), name="images")
    assert variational(model)[0].kernel.shape == (32, 3)
    assert model(np.zeros([5, 4, 4, 2], "float32")).shape == (5, 10)
    assert model.name == "images"


def test_images_are_flattened_alike_where_keras_puts_channels_first(rng):
    x = rng.normal(size=(3, 4, 5, 2)).astype("float32")
    before = keras.config.image_data_format()
    outputs = []
    try:
        for data_format in ("channels_last", "channels_first"):
            keras.config.set_image_data_format(data_format)
            model = models.MLP((4, 5, 2), seed=1)
            with layers.mean_weights():
                outputs.append(np.asarray(model(x)))
    finally:
        keras.config.set_image_data_format(before)
    np.testing.assert_array_equal(*outputs)


def test_a_learned_noise_doubles_the_outputs():
    model = models.MLP((3,), 2, hidden=(4,), noise_scale=0.3)
    assert model.output_shape == (None, 4)
    raw = np.asarray(model(np.zeros([1, 3], "float32")))[0, 2:]
    np.testing.assert_allclose(np.logaddexp(0.0, raw), 0.3, rtol=1e-5)


def test_layer_and_its_arguments_are_passed_on():
    model = models.MLP(
        (3,),
        hidden=(4,),
        layer=layers.DenseFlipout,
        kernel_regularizer=regularizers.GaussianKL(0.5),
        bias_posterior=None,
        num_train_examples=12,
    )
    for layer in variational(model):
        assert type(layer) is layers.DenseFlipout
        assert layer.kernel_regularizer.prior_scale == 0.5
        assert layer.bias_posterior is None
        assert layer.num_train_examples == 12
    plain = models.MLP((3,), layer=keras.layers.Dense)
    assert variational(plain) == []


def test_a_seed_fixes_weights_and_noise(rng):
    x = rng.normal(size=(6, 3)).astype("float32")

    def draw(seed):
        model = models.MLP(
            (3,),
            hidden=(4, 4, 4),
            seed=seed,
            kernel_posterior=layers.MeanFieldPosterior(0.5),
        )
        return model.get_weights(), np.asarray(model(x)), variational(model)

    weights, outputs, found = draw(1)
    again, outputs_again, _ = draw(1)
    for one, other in zip(weights, again, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(outputs, outputs_again)
    others, _, _ = draw(2)
    assert not np.allclose(weights[0], others[0])
    assert not np.allclose(draw(None)[0][0], draw(None)[0][0])
    # No two layers share a seed.
    assert len({layer.seed for layer in found}) == 4
    assert not np.allclose(found[1].kernel, found[2].kernel)


def test_an_initializer_that_is_given_is_kept():
    model = models.MLP((3,), hidden=(), seed=1, kernel_initializer="ones")
    np.testing.assert_array_equal(variational(model)[0].kernel, 1.0)


@pytest.mark.slow
def test_it_learns_a_line(rng):
    model = models.MLP(
        (1,), hidden=(), noise_scale=1.0, num_train_examples=2048, seed=0
    )
    model.compile(
        keras.optimizers.Adam(0.1), losses.HeteroscedasticGaussianNLL()
    )
    x = rng.normal(size=(2048, 1)).astype("float32")
    y = 2.0 * x + 1.0 + 0.1 * rng.normal(size=x.shape).astype("float32")
    model.fit(x, y, batch_size=16, verbose=0)
    with layers.mean_weights():
        found = np.asarray(model(np.array([[0.0], [1.0]], "float32")))
    np.testing.assert_allclose(found[:, 0], [1.0, 3.0], atol=0.1)


def test_it_survives_a_round_trip(tmp_path):
    model = models.MLP((3,), 2, hidden=(4,), noise_scale=0.3)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    x = np.ones([2, 3], "float32")
    with layers.mean_weights():
        np.testing.assert_array_equal(loaded(x), model(x))


@pytest.mark.parametrize(
    "sizes", [(0,), (4, -1), (2.5,), ("4",), (None,), 3, None, "ab"]
)
@pytest.mark.parametrize("name", ["hidden", "input_shape"])
def test_sizes_must_be_positive_integers(name, sizes):
    with pytest.raises(ValueError, match=f"`{name}` must hold positive int"):
        models.MLP(**{"input_shape": (3,), name: sizes})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("outputs", 0, "a positive integer"),
        ("outputs", None, "a positive integer"),
        ("noise_scale", 0.0, "a positive finite number"),
        ("noise_scale", True, "a positive finite number"),
        ("seed", "1", "a non-negative integer or None"),
        ("seed", (1, 2), "a non-negative integer or None"),
        ("seed", 1.5, "a non-negative integer or None"),
    ],
)
def test_other_arguments_are_refused_by_their_names(name, value, message):
    with pytest.raises(ValueError, match=f"`{name}` must be {message}"):
        models.MLP((3,), **{name: value})
