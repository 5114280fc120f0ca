import keras
import numpy as np
import pytest

from tfp_refine import functional


@pytest.fixture
def model():
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, kernel_regularizer=keras.regularizers.L2()),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2),
        ]
    )


@pytest.fixture
def x(rng):
    return rng.normal(size=(6, 3)).astype(np.float32)


def test_outputs_are_those_of_the_weights_that_are_given(model, x):
    weights = functional.ModelWeights(model)
    params, others = weights.values()
    assert (params.size, others.size) == (12 + 4 + 8 + 8 + 2, 8)
    outputs, after, penalty = weights.outputs(x, params, others, 0, 0)
    np.testing.assert_allclose(outputs, model(x), rtol=1e-6)
    np.testing.assert_array_equal(after, others)
    np.testing.assert_allclose(penalty, sum(model.losses), rtol=1e-6)
    weights.assign(2.0 * params, others + 1.0)
    doubled, _, _ = weights.outputs(x, 2.0 * params, others + 1.0, 0, 0)
    np.testing.assert_allclose(doubled, model(x), rtol=1e-6)
    again, _, _ = weights.outputs(x, params, others, 0, 0)
    np.testing.assert_allclose(again, outputs, rtol=1e-6)
    np.testing.assert_array_equal(weights.values()[0], 2.0 * params)


def test_training_mode_updates_others_but_not_the_model(model, x):
    weights = functional.ModelWeights(model)
    params, others = weights.values()
    _, after, _ = weights.outputs(x, params, others, 1, 0, training=True)
    np.testing.assert_array_equal(weights.values()[1], others)
    model(x, training=True)
    np.testing.assert_allclose(after, weights.values()[1], rtol=1e-5)


def test_noise_depends_on_the_key_and_the_call_alone(model, x):
    weights = functional.ModelWeights(model)
    values = weights.values()

    def draw(*stream):
        return weights.outputs(x, *values, *stream, training=True)[0].numpy()

    first = draw(1, 0)
    model(x, training=True)
    np.testing.assert_array_equal(draw(1, 0), first)
    for other in (draw(2, 0), draw(1, 1)):
        assert np.max(np.abs(other - first)) > 0.1


def test_models_without_other_weights_do(x):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    weights = functional.ModelWeights(model)
    params, others = weights.values()
    assert others.shape == (0,)
    outputs, after, penalty = weights.outputs(x, params, others, 0, 0)
    np.testing.assert_allclose(outputs, model(x), rtol=1e-6)
    assert after.shape == (0,)
    assert float(penalty) == 0.0


def test_models_that_have_no_weights_are_refused():
    model = keras.Sequential([keras.Input((3,)), keras.layers.ReLU()])
    with pytest.raises(ValueError, match="has no weights"):
        functional.ModelWeights(model)


def test_weights_of_several_dtypes_are_refused():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, dtype="float64"),
            keras.layers.Dense(2, dtype="float32"),
        ]
    )
    with pytest.raises(ValueError, match="one dtype. Received: float32, flo"):
        functional.ModelWeights(model)
