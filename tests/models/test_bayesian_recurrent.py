"""Recurrent models that become Bayesian, and back."""

import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tests.support import conversion


@pytest.mark.slow
@pytest.mark.parametrize("kind", [keras.layers.LSTM, keras.layers.GRU])
def test_texts_become_bayesian_and_back(kind):
    model = keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            keras.layers.Embedding(20, 4, mask_zero=True),
            kind(5, return_sequences=True, recurrent_regularizer="l2"),
            kind(3, use_bias=False, go_backwards=True, dropout=0.3, seed=2),
            keras.layers.Dense(2),
        ]
    )
    x = np.random.default_rng(0).integers(0, 20, size=(4, 6))
    converted = conversion.convert(model)
    conversion.assert_equal_at_means(converted, model, x)
    random = [len(layer.variational_weights) for layer in converted.layers]
    assert random == [1, 3, 2, 2]
    assert np.std(tfr.predict(converted, x, 10, seed=1), axis=0).min() > 0.0
    back = tfr.models.to_deterministic(converted)
    np.testing.assert_array_equal(back(x), model(x))
    assert [type(a) for a in back.layers] == [type(a) for a in model.layers]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        (keras.layers.LSTMCell, keras.layers.LSTM),
        (keras.layers.GRUCell, keras.layers.GRU),
    ],
)
def test_layers_of_a_cell_become_that_cells_layers(cell, kind):
    cells = [
        cell(5, activation="softsign", recurrent_regularizer="l2"),
        cell(3, use_bias=False, dropout=0.3, recurrent_initializer="ones"),
    ]
    model = keras.Sequential(
        [
            keras.Input((6, 2)),
            keras.layers.Masking(),
            keras.layers.RNN(cells[0], return_sequences=True, name="first"),
            keras.layers.RNN(cells[1], go_backwards=True, name="second"),
        ]
    )
    x = np.random.default_rng(0).normal(size=(4, 6, 2)).astype("float32")
    x[:, 4:] = 0.0
    converted = conversion.convert(model)
    conversion.assert_equal_at_means(converted, model, x)
    random = [len(layer.variational_weights) for layer in converted.layers[1:]]
    assert random == [3, 2]
    assert np.std(tfr.predict(converted, x, 10, seed=1), axis=0).min() > 0.0
    back = tfr.models.to_deterministic(converted)
    np.testing.assert_array_equal(back(x), model(x))
    assert [type(layer) for layer in back.layers[1:]] == [kind, kind]
    assert [layer.name for layer in back.layers[1:]] == ["first", "second"]


def bidirectional(**options):
    """A model whose layers' weights are nowhere near their start."""
    model = keras.Sequential(
        [
            keras.Input((6, 2)),
            keras.layers.Masking(),
            keras.layers.Bidirectional(
                keras.layers.LSTM(3, return_sequences=True, name="texts"),
                name="first",
                **options,
            ),
            keras.layers.Bidirectional(
                keras.layers.RNN(keras.layers.GRUCell(2)),
                merge_mode="sum",
                backward_layer=keras.layers.LSTM(2, go_backwards=True),
                name="second",
            ),
        ]
    )
    rng = np.random.default_rng(1)
    model.set_weights(
        [w + 0.3 * rng.normal(size=w.shape) for w in model.get_weights()]
    )
    x = rng.normal(size=(4, 6, 2)).astype("float32")
    x[:, 4:] = 0.0
    return model, x


@pytest.mark.slow
@pytest.mark.parametrize(
    "merge_mode", ["concat", pytest.param("mul", marks=pytest.mark.slow)]
)
def test_both_directions_get_posteriors(merge_mode, tmp_path):
    model, x = bidirectional(merge_mode=merge_mode)
    converted = conversion.convert(model)
    conversion.assert_equal_at_means(converted, model, x)
    kinds = [
        [type(one) for one in (layer.forward_layer, layer.backward_layer)]
        for layer in converted.layers[1:]
    ]
    lstm = tfr.layers.LSTMReparameterization
    assert kinds == [[lstm, lstm], [tfr.layers.GRUReparameterization, lstm]]
    layer = converted.get_layer("first")
    assert layer.forward_layer.name == "forward_texts"
    assert layer.forward_layer.seed != layer.backward_layer.seed
    assert np.std(tfr.predict(converted, x, 10, seed=1), axis=0).min() > 0.0
    converted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    conversion.assert_equal_at_means(loaded, model, x)
    back = tfr.models.to_deterministic(converted)
    np.testing.assert_array_equal(back(x), model(x))
    assert [layer.name for layer in back.layers] == [
        layer.name for layer in model.layers
    ]


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["first", "second"])
def test_both_directions_are_chosen_together(chosen):
    model, x = bidirectional()
    converted = conversion.convert(model, layers=chosen)
    conversion.assert_equal_at_means(converted, model, x)
    for layer in converted.layers[1:]:
        for one in (layer.forward_layer, layer.backward_layer):
            weights = getattr(one, "variational_weights", ())
            assert len(weights) == (3 if layer.name == chosen else 0)


@pytest.mark.parametrize(
    "cell",
    [
        keras.layers.SimpleRNNCell(2),
        keras.layers.GRUCell(2, dtype="float64"),
        [keras.layers.LSTMCell(2), keras.layers.LSTMCell(3)],
    ],
    ids=["simple", "precise", "stacked"],
)
def test_layers_of_other_cells_are_kept_and_named(cell):
    model = keras.Sequential(
        [
            keras.Input((6, 2)),
            keras.layers.RNN(cell, name="cells"),
            keras.layers.Dense(2),
        ]
    )
    with pytest.warns(UserWarning, match=r"kind: cells\."):
        converted = conversion.convert(model)
    x = np.random.default_rng(0).normal(size=(4, 6, 2)).astype("float32")
    conversion.assert_equal_at_means(converted, model, x)


def test_what_recurrent_layers_drop_has_the_seed_of_their_weights():
    layer = keras.layers.GRU(2, dropout=0.3)
    converted = conversion.convert(
        keras.Sequential([keras.Input((3, 2)), layer])
    )
    back = tfr.models.to_deterministic(converted)
    (one,), (other,) = back.layers, converted.layers
    assert one.get_config()["seed"] == other.get_config()["seed"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.layers.LSTM(2, trainable=False),
        lambda: keras.layers.Bidirectional(keras.layers.GRU(2)),
        lambda: keras.layers.RNN(keras.layers.LSTMCell(2)),
        lambda: keras.layers.RNN(keras.layers.GRUCell(2, trainable=False)),
    ],
    ids=["layer", "both", "cells", "cell"],
)
def test_frozen_layers_stay_frozen(make, rng):
    layer = make()
    if getattr(getattr(layer, "cell", None), "trainable", True):
        layer.trainable = False
    model = keras.Sequential(
        [keras.Input((4, 3)), layer, keras.layers.Dense(1)]
    )
    assert len(model.trainable_variables) == 2
    copied, _ = conversion.convert(model).layers
    assert type(copied) is type(layer)
    assert copied.trainable_variables == []
    converted = conversion.convert(model, layers=lambda layer: True)
    frozen, dense = converted.layers
    assert len(frozen.weights) > 3
    assert frozen.trainable_variables == []
    assert len(dense.trainable_variables) == 4
    before = [np.array(w) for w in frozen.trainable_weights]
    converted.compile("sgd", "mse", run_eagerly=True)
    converted.fit(rng.normal(size=(4, 4, 3)), np.ones((4, 1)), verbose=0)
    for old, new in zip(before, frozen.trainable_weights, strict=True):
        np.testing.assert_array_equal(old, new)
