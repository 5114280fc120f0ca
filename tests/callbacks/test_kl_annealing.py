import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr
from tfp_refine import callbacks


def model(**options):
    inputs = keras.Input((2,))
    layer = tfr.layers.DenseReparameterization(
        1, num_train_examples=20, name="dense"
    )
    built = keras.Model(inputs, layer(inputs))
    built.compile("sgd", "mse", **options)
    return built


def fit(built, callback, **options):
    x = np.ones((20, 2), np.float32)
    options = {"epochs": 4, "batch_size": 5, "verbose": 0} | options
    return built.fit(x, x[:, :1], callbacks=callback, **options).history


class Recorder(keras.callbacks.Callback):
    """Notes the factor that each batch is trained with."""

    def __init__(self):
        super().__init__()
        self.found = []

    def on_train_batch_end(self, batch, logs=None):
        layer = self.model.get_layer("dense")
        self.found.append(float(layer.kl_scale))


def test_each_epoch_has_the_factor_of_the_schedule():
    built, recorder = model(), Recorder()
    annealing = callbacks.KLAnnealing(lambda epoch: 0.1 * epoch)
    history = fit(built, [annealing, recorder])
    np.testing.assert_allclose(history["kl_scale"], [0.0, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(
        recorder.found, np.repeat([0.0, 0.1, 0.2, 0.3], 4), rtol=1e-6
    )
    np.testing.assert_allclose(built.get_layer("dense").kl_scale, 0.3)


def test_each_batch_may_have_one_of_its_own():
    recorder = Recorder()
    annealing = callbacks.KLAnnealing(lambda time: time, frequency="batch")
    fit(model(), [annealing, recorder], epochs=2)
    np.testing.assert_allclose(recorder.found, np.arange(8) / 4.0)


@pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning")
def test_batches_of_data_of_unknown_size_are_counted_in_the_first_epoch():
    x = np.ones((20, 2), np.float32)
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(5)
    data = data.filter(lambda x, y: True)
    recorder = Recorder()
    annealing = callbacks.KLAnnealing(lambda time: time, frequency="batch")
    model().fit(
        data,
        epochs=3,
        verbose=0,
        shuffle=False,
        callbacks=[annealing, recorder],
    )
    np.testing.assert_allclose(
        recorder.found, [0.0] * 4 + list(np.arange(4, 12) / 4.0)
    )


@pytest.mark.parametrize("value", [None, "one", [1.0, 2.0]])
def test_what_is_no_factor_is_told(value):
    annealing = callbacks.KLAnnealing(lambda _: value)
    with pytest.raises(ValueError, match="`schedule` must return a number"):
        fit(model(), [annealing])


def test_batches_that_nobody_has_counted_have_the_factor_of_their_epoch():
    annealing = callbacks.KLAnnealing(lambda time: time, frequency="batch")
    annealing.set_model(model())
    annealing.set_params({"steps": None})
    annealing.on_epoch_begin(2)
    annealing.on_train_batch_begin(3)
    assert float(annealing.model.get_layer("dense").kl_scale) == 2.0


def test_a_fit_that_goes_on_continues_the_schedule():
    annealing = callbacks.KLAnnealing(lambda epoch: 0.1 * epoch)
    history = fit(model(), [annealing], initial_epoch=2)
    np.testing.assert_allclose(history["kl_scale"], [0.2, 0.3])


def test_the_factor_reaches_the_loss_without_another_trace():
    built = model()
    losses = []
    for factor in (0.0, 1.0, 2.0):
        # Nothing is learned: the loss changes by the factor alone.
        built.optimizer.learning_rate = 0.0
        tfr.layers.set_kl_scale(built, 0.0)
        annealing = callbacks.KLAnnealing(lambda _, value=factor: value)
        fit(built, [annealing], epochs=1)
        losses.append(float(sum(built.losses)))
    kl = sum(
        float(w.kl()) for w in built.get_layer("dense").variational_weights
    )
    np.testing.assert_allclose(
        losses, np.array([0.0, 1.0, 2.0]) * kl / 20, rtol=1e-5
    )
    traces = built.train_function
    fit(built, [callbacks.KLAnnealing(lambda epoch: epoch)])
    assert built.train_function is traces


def test_warm_up_rises_from_zero_to_one_and_stays():
    schedule = callbacks.linear_warmup(4, zero_epochs=2)
    found = [schedule(time) for time in (0, 2, 3, 4.5, 6, 100)]
    np.testing.assert_allclose(found, [0.0, 0.0, 0.25, 0.625, 1.0, 1.0])
    assert callbacks.linear_warmup(10)(5) == 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: callbacks.KLAnnealing(0.5), "must be a function"),
        (lambda: callbacks.KLAnnealing(abs, "step"), "frequency"),
        (lambda: callbacks.linear_warmup(0), "num_epochs"),
        (lambda: callbacks.linear_warmup(1, -1), "zero_epochs"),
    ],
    ids=["schedule", "frequency", "num_epochs", "zero_epochs"],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_bad_factors_and_models_stop_the_training():
    with pytest.raises(ValueError, match="kl_scale"):
        fit(model(), [callbacks.KLAnnealing(lambda epoch: -1.0)])
    plain = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    plain.compile("sgd", "mse")
    with pytest.raises(ValueError, match="no variational layers"):
        fit(plain, [callbacks.KLAnnealing(lambda epoch: 1.0)])
