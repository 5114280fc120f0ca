"""Networks as users have them: converted, fitted, refined, exported."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr

pytestmark = pytest.mark.slow
_N = 16


def _images(name, **options):
    """Returns a network of `keras.applications` and data for it."""
    rng = np.random.default_rng(0)
    network = getattr(keras.applications, name)(
        weights=None,
        input_shape=(32, 32, 3),
        classes=3,
        classifier_activation=None,
        **options,
    )
    x = rng.uniform(0.0, 255.0, size=(_N, 32, 32, 3)).astype("float32")
    return network, tfr.losses.CategoricalNLL(), x, np.arange(_N) % 3


def _text():
    """Returns a classifier of strings."""
    x = np.array(["good film", "bad film", "good", "very bad"] * (_N // 4))
    text = keras.layers.TextVectorization(10, output_sequence_length=3)
    text.adapt(x)
    network = keras.Sequential(
        [
            keras.Input((), dtype="string"),
            text,
            keras.layers.Embedding(10, 4, mask_zero=True),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    return network, tfr.losses.BernoulliNLL(), x, np.arange(_N) % 2


def _tagger():
    """Returns a tagger of tokens, of sentences of different lengths."""
    rng = np.random.default_rng(0)
    x = rng.integers(1, 10, size=(_N, 5))
    x[np.arange(5) >= rng.integers(1, 6, size=(_N, 1))] = 0
    network = keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            keras.layers.Embedding(10, 4, mask_zero=True),
            keras.layers.LSTM(4, return_sequences=True),
            keras.layers.Dense(3),
        ]
    )
    # Padding has a tag that is none: it must not count.
    return network, tfr.losses.CategoricalNLL(), x, np.where(x > 0, x % 3, -1)


def _multilabel():
    """Returns a network of four labels that do not exclude each other."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_N, 3)).astype("float32")
    network = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(4),
        ]
    )
    y = (rng.normal(size=(_N, 4)) < x[:, :1]).astype("float32")
    return network, tfr.losses.BernoulliNLL(), x, y


def _two_headed():
    """Returns a network of a class and a number, by name."""
    rng = np.random.default_rng(0)
    x = {"b": rng.normal(size=_N), "a": rng.normal(size=(_N, 3))}
    inputs = [keras.Input((3,), name="a"), keras.Input((1,), name="b")]
    hidden = keras.layers.Concatenate()(inputs)
    hidden = keras.layers.Dense(8, activation="relu")(hidden)
    outputs = {
        "kind": keras.layers.Dense(3, name="kind")(hidden),
        "size": keras.layers.Dense(1, name="size")(hidden),
    }
    loss = {
        "size": tfr.losses.GaussianNLL(0.5),
        "kind": tfr.losses.CategoricalNLL(),
    }
    y = {"kind": np.arange(_N) % 3, "size": x["b"].astype("float32")}
    return keras.Model(inputs, outputs), loss, x, y


NETWORKS = {
    "MobileNetV3Small": lambda: _images("MobileNetV3Small"),
    "EfficientNetB0": lambda: _images("EfficientNetB0"),
    "ResNet50V2": lambda: _images("ResNet50V2"),
    "text": _text,
    "tagger": _tagger,
    "multilabel": _multilabel,
    "two_headed": _two_headed,
}


def _as_served(network, x):
    """Returns inputs as the network declares them, which a server asks for."""
    if isinstance(x, dict):
        x = [x[tensor.name] for tensor in network.inputs]
        return [
            tf.reshape(tf.cast(leaf, tensor.dtype), [len(leaf), -1])
            for leaf, tensor in zip(x, network.inputs, strict=True)
        ]
    return tf.constant(x, network.inputs[0].dtype)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_converted_fitted_refined_summarized_and_exported(
    name, tmp_path
):
    network, loss, x, y = NETWORKS[name]()
    model = tfr.models.to_bayesian(network, num_train_examples=_N, seed=1)
    model.compile("adam", loss)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    history = model.fit(data, epochs=2, shuffle=False, verbose=0)
    assert np.all(np.isfinite(history.history["loss"]))
    ensemble = tfr.refine(
        model,
        data,
        num_members=1,
        variance_ratios=(0.5,),
        steps=3,
        batch_size=8,
        num_eval_samples=2,
        seed=1,
        verbose=0,
    )
    assert np.all(np.isfinite(ensemble.elbo_final))
    summary = ensemble.summarize(x, 4, seed=1)
    for mean, std in zip(
        *map(keras.tree.flatten, (summary.mean, summary.std)), strict=True
    ):
        assert len(mean) == _N
        assert np.all(np.isfinite(mean))
        assert np.all(std > 0.0)
    ensemble.export(tmp_path, 3, seed=1)
    served = tf.saved_model.load(tmp_path)
    few = keras.tree.map_structure(lambda leaf: leaf[:5], x)
    keras.tree.map_structure(
        lambda one, other: np.testing.assert_allclose(
            one, other, rtol=1e-4, atol=1e-5
        ),
        served.serve(_as_served(network, few)),
        ensemble.predict(few, 3, seed=1),
    )
