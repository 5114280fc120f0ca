"""Recurrent networks, trained models from files, and models that do not fit."""

import dataclasses

import keras
import numpy as np
import pytest

from tfp_refine import layers
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.systems import networks

MAP = networks.Network("map")


def words(count=12):
    x = np.random.default_rng(0).integers(1, 20, (count, 6)).astype(np.int32)
    return of(x, np.arange(count) % 3)


def images(count=12):
    x = np.random.default_rng(0).normal(size=(count, 8, 5, 2))
    return of(x.astype(np.float32), np.arange(count) % 3)


def of(x, y):
    return dataset.Dataset(
        train=(x, y), validation=(x[:0], y[:0]), test=(x, y), num_classes=3
    )


def config(**options):
    return fields.Bench(
        **{"model": "gru", "hidden": (7,), "prior_scale": "0.5"} | options
    )


def build(data, seed=0, **options):
    return networks.build(MAP, config(**options), data, seed)


def test_a_recurrent_network_reads_words_and_skips_what_is_no_word():
    data = words()
    model = build(data, vocabulary=20, embedding=4)
    x = data.train[0]
    outputs = model(x)
    assert outputs.shape == (12, 3)
    padded = np.concatenate([x, np.zeros((12, 3), np.int32)], axis=1)
    short = dataset.Dataset(
        train=(padded, data.train[1]),
        validation=data.validation,
        test=data.test,
        num_classes=3,
    )
    longer = build(short, vocabulary=20, embedding=4)
    longer.set_weights(model.get_weights())
    np.testing.assert_allclose(longer(padded), outputs, rtol=1e-5, atol=1e-6)


def test_a_transformer_reads_words():
    data = words()
    transformer = config(
        model="text_transformer", vocabulary=20, embedding=4, dropout=0.1,
        variational="hybrid", dense_estimator="reparameterization",
    )  # fmt: skip
    networks.check_model(transformer, "texts")
    plain = networks.build(MAP, transformer, data, 0)
    assert plain.get_layer("block_0_hidden").units == 7
    assert plain.get_layer("embeddings").input_dim == 20
    assert plain(data.train[0]).shape == (12, 3)
    random = networks.build(networks.Network("vi"), transformer, data, 0)
    assert type(random.get_layer("outputs")) is layers.DenseReparameterization
    for other in (
        config(model="text_transformer", hidden=(2, 2)),
        dataclasses.replace(transformer, batch_norm=True),
    ):
        with pytest.raises(ValueError, match="--model=text_transformer"):
            networks.check_model(other, "texts")
    with pytest.raises(ValueError, match="is not for --kind=images"):
        networks.check_model(transformer, "images")
    reason = networks.why_not(networks.Network("mnf"), transformer)
    assert "no multiplicative layers" in reason


def test_a_recurrent_network_reads_the_rows_of_images():
    data = images()
    model = build(data)
    assert model(data.train[0]).shape == (12, 3)
    assert model.get_layer("gru").input.shape == (None, 8, 10)


def test_the_penalty_of_a_recurrent_network_is_a_gaussian_prior():
    model = build(words(), vocabulary=20, embedding=4)
    squares = sum(np.sum(np.square(w)) for w in model.trainable_weights)
    np.testing.assert_allclose(
        sum(map(float, model.losses)), 0.5 * squares / (12 * 0.5**2), rtol=1e-5
    )


def test_the_seed_fixes_the_weights_of_a_recurrent_network():
    first, again, other = (build(words(), seed) for seed in (1, 1, 2))
    pairs = zip(
        first.get_weights(),
        again.get_weights(),
        other.get_weights(),
        strict=True,
    )
    for one, two, three in pairs:
        np.testing.assert_array_equal(one, two)
        assert not np.any(one) or np.any(one != three)


def saved(path, *layers, shape=(8, 5, 2)):
    model = keras.Sequential([keras.Input(shape), *layers])
    model.save(path)
    return model


def test_a_trained_model_is_taken_as_it_is(tmp_path):
    data, path = images(), tmp_path / "mine.keras"
    model = saved(
        path,
        keras.layers.Flatten(),
        keras.layers.Dense(3, activation="softmax"),
    )
    found = build(data, model=str(path))
    np.testing.assert_array_equal(
        found.predict(data.train[0], verbose=0),
        model.predict(data.train[0], verbose=0),
    )


def test_models_that_do_not_fit_the_data_are_refused(tmp_path):
    flat, dense = keras.layers.Flatten(), keras.layers.Dense
    (tmp_path / "text.keras").write_text("no model")
    saved(tmp_path / "five.keras", flat, dense(5))
    saved(tmp_path / "shape.keras", dense(3), shape=(4,))
    saved(tmp_path / "conv.keras", keras.layers.Conv2D(2, 3))
    for name, expected in {
        "none": "must be the file of a Keras model",
        "text": "must be the file of a Keras model",
        "five": "an output for each of 3 classes.* for 5",
        "shape": "inputs of shape",
        "conv": "Dense",
    }.items():
        path = str(tmp_path / f"{name}.keras")
        with pytest.raises(ValueError, match=expected) as error:
            build(images(), model=path)
        assert "--model" in str(error.value)
        assert path in str(error.value)


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("images", {"model": "vgg"}, "--list prints. Received: --model=vgg"),
        ("texts", {"model": "mlp"}, "--model=mlp is not for --kind=texts"),
        ("table", {}, "--model=gru is not for --kind=table"),
        ("regression", {"model": "a.keras"}, "is not for --kind=regression"),
        ("texts", {"hidden": (3, 4)}, "one number .* --hidden=3,4"),
        ("images", {"scaling": "unit"}, "--scaling is for a trained --model"),
        ("images", {"batch_norm": True}, "--batch_norm .* are for ResNets"),
    ],
)
def test_models_for_other_data_are_refused(kind, options, expected):
    with pytest.raises(ValueError, match=expected):
        networks.check_model(config(**options), kind)


@pytest.mark.parametrize("scale", ["0", "-1", "nan", "inf", "fan_in"])
def test_point_estimates_need_a_prior_that_is_a_penalty(scale):
    with pytest.raises(ValueError, match=f"--prior_scale=.*{scale}"):
        build(words(), prior_scale=scale)
