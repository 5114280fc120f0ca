import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr
from tfp_refine import ensembles
from tfp_refine import functional

N = 40


def build(seed=0, batch_norm=False):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(
                5,
                "tanh",
                kernel_initializer=keras.initializers.GlorotUniform(seed),
                kernel_regularizer=keras.regularizers.L2(0.01),
            ),
            *([keras.layers.BatchNormalization()] if batch_norm else []),
            keras.layers.Dense(
                1, kernel_initializer=keras.initializers.GlorotUniform(seed)
            ),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), tfr.losses.GaussianNLL(0.5))
    return model


def make_data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 3)).astype(np.float32)
    y = np.sin(x[:, :1]) + 0.1 * rng.normal(size=(N, 1))
    return x, y.astype(np.float32)


@pytest.fixture
def data():
    return make_data()


def train(model, data, **options):
    options = {
        "num_members": 3,
        "steps": 40,
        "batch_size": 16,
        "learning_rate": 0.01,
        "seed": 1,
        "verbose": 0,
    } | options
    return ensembles.deep_ensemble(model, *data, **options)


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.slow
def test_a_member_on_whole_batches_is_trained_as_by_keras(data, batch_norm):
    starts = []

    def start(seed):
        starts.append(build(seed, batch_norm))
        return starts[-1]

    # More of a batch than there are examples: all of them, in any order.
    ensemble = train(start, data, num_members=2, steps=30, batch_size=100)
    for index, model in enumerate(starts):
        if index == 0:
            # The ensemble's own model, whose weights it has not changed.
            untouched = functional.WeightView(model).params()
            assert np.max(np.abs(untouched - ensemble.params[0])) > 1e-3
        model.fit(*data, batch_size=N, epochs=30, verbose=0)
        for found, expected in zip(
            ensemble.member(index).weights, model.weights, strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-4)


def test_members_start_and_end_apart_even_with_seeds_of_their_own(data):
    ensemble = train(build(seed=7), data, steps=1, learning_rate=1e-9)
    for one, other in ((0, 1), (1, 2), (0, 2)):
        kernels = ensemble.params[[one, other], :15]
        assert np.mean(np.abs(kernels[0] - kernels[1])) > 0.1


@pytest.mark.slow
def test_the_seed_fixes_the_ensemble(data):
    first, again = train(build(), data), train(build(), data)
    np.testing.assert_array_equal(first.params, again.params)
    assert np.any(train(build(), data, seed=2).params != first.params)
    # A member does not depend on how many there are.
    more = train(build(), data, num_members=4)
    np.testing.assert_allclose(more.params[:3], first.params, rtol=1e-5)


def test_copies_need_no_losses_and_the_model_keeps_its_own(data):
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inner(inputs)))
    for each in (inner, model):
        # Losses that Keras cannot write down.
        each.compile("sgd", lambda y, outputs: (y - outputs) ** 2)
    ensemble = train(model, data, loss="mse", steps=1, num_members=2)
    assert len(ensemble.params) == 2
    assert inner.compiled
    assert model.compiled


def test_the_model_is_left_as_it_was(data):
    model = build()
    before = [np.array(w) for w in model.weights]
    train(model, data)
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


@pytest.mark.slow
def test_losses_fall_and_are_recorded(data):
    ensemble = train(build(), data, steps=400)
    assert ensemble.history["step"].tolist() == list(range(20, 401, 20))
    assert ensemble.history["loss"].shape == (3, 20)
    assert np.all(
        ensemble.history["loss"][:, -1] < ensemble.history["loss"][:, 0]
    )


def bias_only():
    model = keras.Sequential(
        [keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")]
    )
    model.layers[0].kernel.trainable = False
    return model


@pytest.mark.parametrize(
    "bootstrap", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_bootstrap_draws_examples_of_each_members_own(rng, bootstrap):
    x = np.zeros((50, 1), np.float32)
    y = rng.normal(size=(50, 1)).astype(np.float32)
    ensemble = train(
        lambda seed: bias_only(), (x, y), num_members=60, steps=400,
        batch_size=50, learning_rate=0.05, learning_rate_decay="cosine",
        loss="mse", bootstrap=bootstrap,
    )  # fmt: skip
    means = ensemble.params[:, 0]
    if not bootstrap:
        np.testing.assert_allclose(means, y.mean(), atol=1e-3)
        return
    # Means of resamples: a chi-squared with 59 degrees of freedom, within
    # bounds that it leaves once in a million.
    ratio = np.sum(np.square(means - y.mean())) / (y.var() / 50)
    assert 20.0 < ratio < 130.0


def test_adversarial_training_moves_inputs_by_the_sign_of_the_gradient(data):
    x, y = data
    model = build(seed=3)
    ensemble = train(
        lambda seed: build(seed=3), data, num_members=1, steps=5,
        batch_size=N, adversarial_epsilon=0.1,
    )  # fmt: skip
    span = 0.1 * (x.max(axis=0) - x.min(axis=0))
    loss, optimizer = model.loss, keras.optimizers.Adam(0.01)
    for _ in range(5):
        inputs = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            nll = loss(y, model(inputs))
        moved = inputs + span * tf.sign(tape.gradient(nll, inputs))
        with tf.GradientTape() as tape:
            both = 0.5 * (loss(y, model(x)) + loss(y, model(moved)))
            total = both + sum(model.losses)
        gradients = tape.gradient(total, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
    expected = functional.WeightView(model).params()
    np.testing.assert_allclose(
        ensemble.params[0], expected, rtol=1e-3, atol=1e-5
    )


@pytest.mark.slow
def test_an_interrupted_training_ends_with_the_same_members(
    data, tmp_path, monkeypatch
):
    expected = train(build(), data)
    update, segments = functional.progress.Progress.update, []

    def interrupt(bar, current, **values):
        update(bar, current, **values)
        segments.append(current)
        if segments == [2, 4, 6, 8, 10]:
            raise KeyboardInterrupt

    monkeypatch.setattr(functional.progress.Progress, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(build(), data, checkpoint_dir=tmp_path)
    found = train(build(), data, checkpoint_dir=tmp_path)
    assert segments == list(range(2, 41, 2))  # each once
    np.testing.assert_array_equal(found.params, expected.params)
    np.testing.assert_array_equal(
        found.history["loss"], expected.history["loss"]
    )
    done = train(build(), data, checkpoint_dir=tmp_path)
    np.testing.assert_array_equal(done.params, expected.params)
    assert segments == list(range(2, 41, 2))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder with the checkpoint of an ensemble."""
    folder = tmp_path_factory.mktemp("trained")
    train(build(), make_data(), checkpoint_dir=folder, steps=4)
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    """A copy of `trained`."""
    return shutil.copytree(trained, tmp_path / "copy")


@pytest.mark.slow
def test_the_checkpoint_of_the_same_ensemble_is_read(data, folder):
    train(build(), data, checkpoint_dir=folder, steps=4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2},
        {"steps": 80},
        {"learning_rate": 0.1},
        {"learning_rate_decay": "cosine"},
        {"batch_size": 8},
        {"bootstrap": True},
        {"adversarial_epsilon": 0.1},
        {"loss": "mae"},
    ],
    ids=str,
)
def test_checkpoints_of_other_ensembles_are_refused(data, folder, change):
    with pytest.raises(ValueError, match="a different deep ensemble"):
        train(
            build(),
            data,
            **({"checkpoint_dir": folder, "steps": 4} | change),
        )


@pytest.mark.parametrize("index", [0, 1], ids=["x", "y"])
def test_checkpoints_of_other_data_are_refused(data, folder, index):
    other = [values.copy() for values in data]
    other[index][-1] += 1.0
    with pytest.raises(ValueError, match="a different deep ensemble"):
        train(build(), other, checkpoint_dir=folder, steps=4)


def test_layers_of_a_member_start_apart_even_with_equal_seeds(data):
    same = {"kernel_initializer": keras.initializers.GlorotUniform(7)}
    inner = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(3, **same)], name="inner"
    )
    stacked = keras.layers.StackedRNNCells(
        [keras.layers.SimpleRNNCell(3, **same)]
    )
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(3, use_bias=False, **same),
            inner,
            keras.layers.Reshape((1, 3)),
            keras.layers.RNN(stacked),
            keras.layers.Dense(1, **same),
        ]
    )
    model.compile("sgd", "mse")
    ensemble = train(
        model, data, num_members=2, steps=1, learning_rate=1e-9
    )  # fmt: skip
    first, second = ensemble.params
    kernels = [slice(0, 9), slice(9, 18), slice(21, 30)]  # 3 are biases
    for kernel in kernels:
        assert np.mean(np.abs(first[kernel] - second[kernel])) > 0.05
    assert np.mean(np.abs(first[kernels[0]] - first[kernels[1]])) > 0.05


def test_draws_of_models_with_noise_follow_the_seed(data):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(8, "tanh"),
            tfr.layers.MCDropout(0.5),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", tfr.losses.GaussianNLL(0.5))
    ensemble = train(model, data)
    first, again, other = (
        ensemble.predict(data[0], 3, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


@pytest.mark.parametrize("kind", ["integers", "nested"])
def test_only_floating_point_inputs_are_moved(data, kind):
    x, y = data
    inputs = keras.Input(
        (3,), name="one", dtype="int32" if kind == "integers" else None
    )
    hidden = keras.layers.Rescaling(1.0)(inputs)
    outputs = keras.layers.Dense(1)(hidden)
    model = keras.Model(
        inputs if kind == "integers" else {"one": inputs}, outputs
    )
    model.compile("sgd", "mse")
    x = x.astype(np.int32) if kind == "integers" else {"one": x}
    with pytest.raises(ValueError, match="`adversarial_epsilon` needs inputs"):
        train(model, (x, y), adversarial_epsilon=0.1)


def test_predictions_are_those_of_the_members(data):
    ensemble = train(lambda seed: build(seed, batch_norm=True), data)
    draws = ensemble.predict(data[0], 3)
    assert draws.shape == (3, N, 1)
    for index in range(3):
        model = ensemble.member(index)
        np.testing.assert_allclose(
            draws[index], model(data[0]), rtol=1e-5, atol=1e-6
        )
    more = tfr.predict(ensemble, data[0], 7, seed=0)
    np.testing.assert_allclose(more, draws[[0, 1, 2, 0, 1, 2, 0]], rtol=1e-6)
    with pytest.warns(UserWarning, match="the first 2 are used"):
        fewer = ensemble.predict(data[0], 2)
    np.testing.assert_allclose(fewer, draws[:2], rtol=1e-6)
    for index in (3, -1):
        with pytest.raises(IndexError, match=f"index={index}"):
            ensemble.member(index)


def test_samples_are_the_members_in_order(data):
    ensemble = train(build(), data)
    samples = ensemble.sample(5, seed=0)
    np.testing.assert_array_equal(samples, ensemble.params[[0, 1, 2, 0, 1]])


def test_frozen_weights_are_those_of_the_model(data):
    model = build()
    model.layers[0].trainable = False
    model.layers[0].bias.assign(np.arange(5.0))
    ensemble = train(model, data)
    for index in range(3):
        for found, expected in zip(
            ensemble.member(index).layers[0].weights,
            model.layers[0].weights,
            strict=True,
        ):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_adapted_layers_stay_adapted(data):
    x, y = data
    scaling = keras.layers.Normalization()
    scaling.adapt(x * 100.0 + 7.0)
    model = keras.Sequential(
        [keras.Input((3,)), scaling, keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    ensemble = train(model, (x * 100.0 + 7.0, y))
    # The same linear network, on inputs that were scaled before.
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    plain.compile("sgd", "mse")
    expected = train(plain, (np.asarray(scaling(x * 100.0 + 7.0)), y))
    np.testing.assert_allclose(
        ensemble.history["loss"], expected.history["loss"], rtol=1e-3
    )


@pytest.mark.slow
def test_a_saved_ensemble_is_the_same(data, tmp_path):
    model = build(batch_norm=True)
    ensemble = train(model, data)
    ensemble.save(tmp_path / "ensemble.posterior")
    for given in (None, build(seed=9, batch_norm=True)):
        loaded = tfr.load_posterior(tmp_path / "ensemble.posterior", given)
        np.testing.assert_array_equal(
            loaded.predict(data[0], 3), ensemble.predict(data[0], 3)
        )
        for name in ("step", "loss"):
            np.testing.assert_array_equal(
                loaded.history[name], ensemble.history[name]
            )
    with pytest.raises(ValueError, match="must have the architecture"):
        tfr.load_posterior(tmp_path / "ensemble.posterior", build())
    with pytest.raises(ValueError, match="can be written"):
        ensemble.save(tmp_path / "nowhere" / "ensemble.posterior")


@keras.saving.register_keras_serializable(package="tests")
class Subclassed(keras.Model):
    def __init__(self, units, **options):
        super().__init__(**options)
        self.units = units
        self.dense = keras.layers.Dense(units)

    def call(self, x):
        return self.dense(x)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def test_subclassed_models_come_from_a_function(data):
    def make(seed):
        keras.utils.set_random_seed(seed % 1000)
        model = Subclassed(1)
        model(data[0][:1])
        return model

    ensemble = train(make, data, loss="mse")
    assert ensemble.predict(data[0], 3).shape == (3, N, 1)
    np.testing.assert_allclose(
        ensemble.member(2)(data[0]), ensemble.predict(data[0], 3)[2], rtol=1e-5
    )
    model = make(0)
    model.compile(loss="mse")
    with pytest.raises(ValueError, match="give a function of a seed"):
        train(model, data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_members": 0}, "num_members"),
        ({"steps": 0}, "steps"),
        ({"batch_size": 1.5}, "batch_size"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate_decay": "step"}, "learning_rate_decay"),
        ({"adversarial_epsilon": -0.1}, "adversarial_epsilon"),
        ({"seed": -1}, "seed"),
        ({"checkpoint_dir": "x", "seed": None}, "needs a `seed`"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_arguments_are_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        train(build(), data, **options)


def test_bad_models_and_data_are_refused(data):
    x, y = data
    different = iter([True, False])
    with pytest.raises(ValueError, match="must be a keras.Model, or a func"):
        train("model", data)
    with pytest.raises(ValueError, match="must return a keras.Model"):
        train(lambda seed: None, data)
    with pytest.raises(ValueError, match="weights of the same shapes"):
        train(lambda seed: build(batch_norm=next(different)), data)
    with pytest.raises(ValueError, match="expects inputs of shape"):
        train(build(), (x[:, :2], y))
    with pytest.raises(ValueError, match="NaN"):
        train(build(), (x, y * np.nan))
    with pytest.raises(ValueError, match="compile the model with a loss"):
        train(lambda seed: bias_only(), (x[:, :1], y))


def test_a_training_that_diverges_is_told(data):
    with pytest.raises(FloatingPointError, match="The loss of member"):
        train(build(), data, learning_rate=1e30)
