import keras
import numpy as np
import pytest

from tests.support import layer_case
from tfp_refine import layers


@pytest.fixture
def model():
    """A model with layers at three depths."""
    inner = keras.Sequential(
        [keras.Input((3,)), layers.DenseFlipout(4, name="inner")]
    )
    inputs = keras.Input((5, 3))
    x = keras.layers.TimeDistributed(inner)(inputs)
    x = keras.layers.TimeDistributed(layers.DenseReparameterization(2))(x)
    x = keras.layers.Flatten()(x)
    return keras.Model(inputs, layers.DenseLocalReparameterization(1)(x))


def test_all_layers_are_told_however_deep_they_are(model):
    layers.set_num_train_examples(model, 10)
    before = layer_case.total(model.losses)
    assert len(model.losses) == 6
    layers.set_num_train_examples(model, np.int32(40))
    np.testing.assert_allclose(
        layer_case.total(model.losses), before / 4, rtol=1e-6
    )
    layers.set_kl_scale(model, 0.5)
    np.testing.assert_allclose(
        layer_case.total(model.losses), before / 8, rtol=1e-6
    )
    layers.set_kl_scale(model, 0.0)
    assert layer_case.total(model.losses) == 0.0


def test_divergences_are_what_each_keras_3_takes_as_a_regularizer():
    layer = layers.DenseFlipout(4, num_train_examples=10)
    dropout = layers.ConcreteDropout(
        keras.layers.Dense(2), num_train_examples=10
    )
    model = keras.Sequential([keras.Input((3,)), layer, dropout])
    attached = [v.regularizer for v in model.trainable_variables]
    attached = [one for one in attached if one is not None]
    assert len(attached) == 3
    for one in attached:
        assert isinstance(one, keras.regularizers.Regularizer)


def test_a_compiled_training_step_follows_the_scale(rng):
    layer = layers.DenseReparameterization(
        1, kernel_initializer="ones", num_train_examples=1
    )
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile(keras.optimizers.SGD(0.0), loss=lambda y, p: 0.0 * p)
    x = np.zeros([4, 3], "float32")
    y = np.zeros([4, 1], "float32")

    def loss():
        return model.fit(x, y, verbose=0).history["loss"][0]

    before = loss()
    assert before > 1.0
    train_function = model.train_function
    layers.set_kl_scale(model, 0.25)
    layers.set_num_train_examples(model, 2)
    np.testing.assert_allclose(loss(), before / 8, rtol=1e-6)
    assert model.train_function is train_function


def test_layers_without_a_posterior_have_nothing_to_scale():
    layer = layers.DenseFlipout(
        2, kernel_posterior=None, bias_posterior=None, num_train_examples=3
    )
    layer.build((None, 2))
    layers.set_kl_scale(layer, 0.5)
    assert layer.kl_scale is None


@pytest.mark.parametrize(
    "tell", [layers.set_num_train_examples, layers.set_kl_scale]
)
def test_a_model_without_variational_layers_is_refused(tell):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="has no variational layers"):
        tell(model, 10)


def test_bad_numbers_and_unbuilt_models_are_refused(model):
    with pytest.raises(ValueError, match="must be a positive integer"):
        layers.set_num_train_examples(model, 0)
    unbuilt = layers.DenseFlipout(2, name="later")
    with pytest.raises(ValueError, match="must be built .* Layer 'later'"):
        layers.set_kl_scale(unbuilt, 0.5)
