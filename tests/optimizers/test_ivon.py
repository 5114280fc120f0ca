import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr

IVON = tfr.optimizers.IVON
NUM = 40


def data():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(NUM, 3)).astype("float32")
    return x, x[:, :1] ** 2


def ivon(**options):
    return IVON(
        **{"learning_rate": 0.1, "num_train_examples": NUM, "seed": 3} | options
    )


def network(optimizer=None, normalized=False, **arguments):
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)]
    if normalized:
        layers.insert(1, keras.layers.BatchNormalization())
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile(optimizer or ivon(), tfr.losses.GaussianNLL(1.0), **arguments)
    return model


def fit(model, epochs=2, **arguments):
    return model.fit(
        *data(), 10, epochs, shuffle=False, verbose=0, **arguments
    ).history


def state(model):
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    return [np.array(v) for v in (*model.weights, *optimizer.variables)]


def assert_same(found, expected, rtol=0.0):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


def scales(model):
    """Returns the standard deviations of each variable."""
    return [model.optimizer.scale_of(v) for v in model.trainable_variables]


def by_hand(model, x, y):
    """Computes the loss at the means."""
    return float(np.mean(tfr.losses.GaussianNLL(1.0)(y, model(x))))


# The mean-field optimum.


def linear_gaussian(num_samples=1, steps=60000):
    """Trains a linear regression; returns it, its scales and the exact ones."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)) @ np.array(
        [[1.0, 0.6, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 0.5]]
    )
    noise, prior = 0.7, 1.5
    y = x @ rng.normal(size=(3, 1)) + noise * rng.normal(size=(50, 1))
    model = keras.Sequential(
        [
            keras.Input((3,), dtype="float64"),
            keras.layers.Dense(1, use_bias=False, dtype="float64"),
        ]
    )
    rate = keras.optimizers.schedules.CosineDecay(0.05, steps)
    optimizer = IVON(
        rate,
        50,
        prior,
        beta_2=1.0 - 1e-4 * num_samples,
        num_samples=num_samples,
        seed=0,
        hessian_init=2.0,
    )
    model.compile(optimizer, tfr.losses.GaussianNLL(noise, dtype="float64"))
    optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=True)
    def train():
        for _ in tf.range(steps):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model.loss(y, model(x, training=True)))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)

    train()
    precision = x.T @ x / noise**2 + np.eye(3) / prior**2
    mean = np.linalg.solve(precision, x.T @ y / noise**2)
    return model, mean, np.diag(precision) ** -0.5


@pytest.fixture
def float64():
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx(before)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    "num_samples", [pytest.param(1, marks=pytest.mark.slow), 3]
)
def test_a_linear_model_reaches_the_mean_field_optimum(num_samples):
    model, mean, scale = linear_gaussian(num_samples)
    (found,) = scales(model)
    np.testing.assert_allclose(found[:, 0] ** 2, scale**2, rtol=0.03)
    error = np.array(model.trainable_variables[0]) - mean
    assert np.max(np.abs(error[:, 0]) / scale) < 0.05


# Draws and means.

MODES = [
    {"steps_per_execution": 3},
    {"run_eagerly": True},
    pytest.param({"jit_compile": True}, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", MODES)
def test_losses_are_at_draws_and_the_variables_are_the_means(arguments):
    model = network(ivon(learning_rate=0.0), **arguments)
    before = model.get_weights()
    losses = fit(model, 3)["loss"]
    assert_same(model.get_weights(), before)
    at_means = by_hand(model, *data())
    assert len({*losses, at_means}) == 4
    np.testing.assert_allclose(
        model.evaluate(*data(), verbose=0), at_means, rtol=1e-5
    )


class Spy(keras.callbacks.Callback):
    """Computes the loss at the weights that callbacks see."""

    def __init__(self):
        super().__init__()
        self.copy = keras.models.clone_model(network())
        self.found = []

    def on_epoch_end(self, epoch, logs=None):
        self.copy.set_weights(self.model.get_weights())
        self.found.append(by_hand(self.copy, *data()))


@pytest.mark.slow
@pytest.mark.parametrize("arguments", MODES)
def test_validation_and_callbacks_see_the_means(arguments, tmp_path):
    path = str(tmp_path / "{epoch}.weights.h5")
    spy = Spy()
    stop = keras.callbacks.EarlyStopping(
        patience=1, min_delta=10.0, restore_best_weights=True
    )
    model = network(**arguments)
    history = fit(
        model,
        5,
        validation_data=data(),
        callbacks=[
            spy,
            stop,
            keras.callbacks.ModelCheckpoint(path, save_weights_only=True),
        ],
    )
    assert len(history["val_loss"]) == 2
    np.testing.assert_allclose(history["val_loss"], spy.found, rtol=1e-5)
    for epoch, expected in enumerate(spy.found):
        spy.copy.load_weights(path.format(epoch=epoch + 1))
        found = by_hand(spy.copy, *data())
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(by_hand(model, *data()), spy.found[0], rtol=1e-6)


def test_gradients_of_others_are_at_the_means_in_their_scope():
    model = network()
    model.optimizer.build(model.trainable_variables)
    x, _ = data()
    expected = np.array(model(x))

    def outputs(call=model):
        with tf.GradientTape():
            return np.array(call(x))

    assert not np.allclose(outputs(), expected)
    np.testing.assert_array_equal(outputs(), outputs())
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(outputs(), expected)
    np.testing.assert_array_equal(model(x, training=True), expected)
    weights = model.trainable_variables, model.non_trainable_variables
    values = [[v.numpy() for v in group] for group in weights]
    given = outputs(lambda x: model.stateless_call(*values, x)[0])
    np.testing.assert_allclose(given, expected, rtol=1e-6)
    # A part of the model that is called by itself is another model.
    part = keras.Model(model.inputs[0], model.outputs[0])
    np.testing.assert_allclose(outputs(part), expected, rtol=1e-6)


@pytest.mark.slow
def test_another_optimizer_trains_at_the_means():
    model, other = network(), network("sgd")
    fit(model)
    other.set_weights(model.get_weights())
    model.compile("sgd", model.loss)
    assert fit(model) == fit(other)
    assert_same(model.get_weights(), other.get_weights())


def gradients_of(model, x, y):
    """Returns the drawn weights and the gradients at these."""
    drawn = [
        np.array(model.optimizer.draw(v)) for v in model.trainable_variables
    ]
    copy = keras.models.clone_model(model)
    copy.compile("sgd")
    copy.set_weights(
        [
            *drawn,
            *[v.numpy() for v in model.non_trainable_variables],
        ]
    )
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model.loss(y, copy(x, training=True)))
    return drawn, tape.gradient(loss, copy.trainable_variables)


@pytest.mark.parametrize("num_samples", [1, 2])
def test_a_step_is_that_of_gradients_at_draws(num_samples):
    model = network(ivon(num_samples=num_samples, beta_2=0.9), run_eagerly=True)
    optimizer = model.optimizer
    optimizer.build(model.trainable_variables)
    x, y = data()
    before = [v.numpy() for v in model.trainable_variables]
    sums = [np.zeros((2, *v.shape)) for v in before]
    batches = np.split(np.arange(20), num_samples)
    for rows in batches:
        drawn, gradients = gradients_of(model, x[rows], y[rows])
        for total, mean, draw, slope in zip(
            sums, before, drawn, gradients, strict=True
        ):
            product = slope * (draw - mean)
            total += np.stack([slope, product]) / num_samples
        model.train_on_batch(x[rows], y[rows])
    decay, h0 = 1.0 / NUM, 0.5
    for mean, total, after, scale in zip(
        before,
        sums,
        model.trainable_variables,
        scales(model),
        strict=True,
    ):
        hessian = total[1] * NUM * (h0 + decay)
        h = 0.9 * h0 + 0.1 * hessian
        h += 0.5 * 0.1**2 * (h0 - hessian) ** 2 / (h0 + decay)
        np.testing.assert_allclose(
            scale, (NUM * (h + decay)) ** -0.5, rtol=1e-4
        )
        step = 0.1 * (h0 + decay) * (total[0] + decay * mean) / (h + decay)
        np.testing.assert_allclose(after, mean - step, rtol=1e-4, atol=1e-5)


# Ways of training.


def built(**arguments):
    """Returns a model whose first batch is at draws, in every mode."""
    model = network(**arguments)
    model.optimizer.build(model.trainable_variables)
    return model


def loop(model, epochs, compiled):
    """Trains in a loop of one's own."""
    x, y = data()

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model.loss(y, model(x, training=True)))
        variables = model.trainable_variables
        model.optimizer.apply_gradients(
            zip(tape.gradient(loss, variables), variables, strict=True)
        )

    step = tf.function(step) if compiled else step
    for _ in range(epochs):
        for begin in range(0, NUM, 10):
            step(x[begin : begin + 10], y[begin : begin + 10])


@pytest.mark.slow
def test_all_ways_of_training_agree():
    expected = built()
    fit(expected)
    # XLA's noise is another.
    found = [built(**arguments) for arguments in MODES[:2]]
    for model in found:
        fit(model)
    for compiled in (False, True):
        found.append(built())
        loop(found[-1], 2, compiled)
    twice = network()
    fit(twice, 1)
    fit(twice, 1)
    assert_same(state(twice), state(expected))
    for model in found:
        assert_same(state(model), state(expected), rtol=2e-4)


@pytest.mark.slow
def test_the_noise_of_another_graph_is_made_again():
    expected, model = built(), built()
    loop(expected, 1, compiled=True)
    x, _ = data()

    @tf.function
    def outputs(x):
        with tf.GradientTape():
            return model(x, training=True)

    outputs(x)  # draws, and no step follows in this graph
    layer = model.layers[0]
    # Not by `setattr`, which Keras tracks.
    layer.__dict__["call"] = tf.function(layer.call)
    loop(model, 1, compiled=True)
    assert_same(state(model), state(expected), rtol=1e-5)


def test_without_a_graph_the_first_batch_only_builds():
    model = network(run_eagerly=True)
    x, y = data()
    before = model.get_weights()
    model.train_on_batch(x, y)
    assert_same(model.get_weights(), before)
    assert int(model.optimizer.iterations) == 0
    model.train_on_batch(x, y)
    assert int(model.optimizer.iterations) == 1
    assert not np.allclose(model.get_weights()[0], before[0])


@pytest.mark.slow
def test_training_continues_from_a_file_bit_for_bit(tmp_path):
    model = network(ivon(num_samples=3), normalized=True)
    fit(model, 2)  # in the middle of a step
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "all.weights.h5")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    # Of another seed: the state of the random numbers is in the file.
    other = network(ivon(num_samples=3, seed=8), normalized=True)
    other.optimizer.build(other.trainable_variables)
    other.load_weights(tmp_path / "all.weights.h5")
    fit(model)
    for each in (loaded, other):
        fit(each)
        assert_same(state(each), state(model))


def test_the_seed_decides_and_the_global_one_if_there_is_none():
    def draw(seed, before=1):
        model = network()
        keras.utils.set_random_seed(before)
        optimizer = ivon(seed=seed)
        optimizer.build(model.trainable_variables)
        return np.array(optimizer.draw(model.trainable_variables[0]))

    np.testing.assert_array_equal(draw(5), draw(5, before=2))
    np.testing.assert_array_equal(draw(None), draw(None))
    assert not np.any(draw(5) == draw(6))
    assert not np.any(draw(None) == draw(None, before=2))


@pytest.mark.slow
def test_the_learning_rate_follows_schedules_and_callbacks():
    decay = keras.optimizers.schedules.PiecewiseConstantDecay([3], [0.1, 0.0])
    model = network(ivon(learning_rate=decay))
    fit(model, 1)
    moved = model.get_weights()
    fit(model, 2)
    assert_same(model.get_weights(), moved)
    callback = keras.callbacks.LearningRateScheduler(lambda epoch: 0.0)
    other = network()
    before = other.get_weights()
    fit(other, callbacks=[callback])
    assert_same(other.get_weights(), before)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_keeps_the_posterior_in_single(policy):
    expected = built()
    fit(expected)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = built()
        fit(model)
    finally:
        keras.config.set_dtype_policy(before)
    found = state(model)
    assert {v.dtype.name for v in found} == {"float32", "int64"}
    for one, other in zip(found, state(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.1, atol=0.05)


def test_a_step_that_overflows_is_skipped():
    optimizer = keras.optimizers.LossScaleOptimizer(ivon(), 2.0**127)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = network(optimizer)
        optimizer.build(model.trainable_variables)
        expected = state(model)
        fit(model, 1)
    finally:
        keras.config.set_dtype_policy(before)
    assert_same(state(model), expected)


@pytest.mark.slow
def test_all_kinds_of_weights_are_trained():
    """Of normalization, embeddings, recurrent and shared layers."""
    keras.utils.set_random_seed(1)
    words = keras.Input((6,), dtype="int32")
    shared = keras.layers.Dense(4)
    hidden = shared(keras.layers.Embedding(9, 4)(words))
    hidden = keras.layers.BatchNormalization()(shared(hidden))
    outputs = keras.layers.Dense(1)(keras.layers.LSTM(3)(hidden))
    model = keras.Model(words, outputs)
    model.layers[-1].bias.trainable = False
    model.compile(ivon(), tfr.losses.GaussianNLL(1.0))
    before = [v.numpy() for v in model.weights]
    x = np.random.default_rng(0).integers(0, 9, (NUM, 6))
    model.fit(x, data()[1], 10, 2, verbose=0)
    for variable, value in zip(model.weights, before, strict=True):
        changed = not np.array_equal(variable, value)
        frozen = variable is model.layers[-1].bias
        assert changed != frozen, variable.path
    start = (NUM * (0.5 + 1 / NUM)) ** -0.5
    for scale in scales(model):
        assert np.all(np.isfinite(scale))
        assert np.all(scale != start)


@pytest.mark.slow
def test_wild_losses_leave_the_precisions_positive():
    model = network(ivon(beta_2=0.9, prior_scale=None))
    x, y = data()
    model.fit(x, 1e8 * y, 10, 3, verbose=0)
    for scale in scales(model):
        assert np.all(scale > 0.0)
        assert np.all(np.isfinite(scale))


# Arguments and errors.


def test_the_config_makes_an_equal_optimizer():
    optimizer = ivon(
        prior_scale=None,
        hessian_init=0.1,
        beta_1=0.8,
        beta_2=0.99,
        num_samples=2,
        clip_radius=0.1,
        name="other",
    )
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(copy) is IVON
    assert copy.get_config() == optimizer.get_config()
    assert copy.decay == 0.0
    assert "num_train_examples=40" in repr(copy)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("num_train_examples", None),
        ("num_train_examples", 0),
        ("num_train_examples", 2.5),
        ("prior_scale", 0.0),
        ("prior_scale", float("inf")),
        ("hessian_init", -0.1),
        ("beta_1", 1.0),
        ("beta_2", -0.1),
        ("num_samples", 0),
        ("clip_radius", 0.0),
        ("seed", -1),
        ("learning_rate", 1),
    ],
)
def test_arguments_are_checked(argument, value):
    with pytest.raises(ValueError, match=f"`{argument}`.*{value}"):
        ivon(**{argument: value})


def test_models_that_it_cannot_train_are_refused():
    def model(**arguments):
        result = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(1, **arguments)]
        )
        result.compile(ivon(), "mse")
        return result

    penalized = model(kernel_regularizer="l2")
    with pytest.raises(ValueError, match="regularizer.*kernel.*L2"):
        penalized.fit(*data(), verbose=0)
    half = model(dtype="bfloat16")
    with pytest.raises(ValueError, match="precision.*kernel.*bfloat16"):
        half.fit(*data(), verbose=0)
    with pytest.raises(ValueError, match="trainable weights"):
        ivon().build([])


@pytest.mark.parametrize(
    ("loss", "units", "message"),
    [
        ("hinge", 1, "loss=.*hinge"),
        ("huber", 1, "loss=.*huber"),
        (keras.losses.CosineSimilarity(), 2, "loss=.*cosine_sim"),
        (keras.losses.MeanSquaredError("sum"), 1, "reduction='sum'"),
        ("mse", 2, "mean over the 2 outputs.*GaussianNLL"),
    ],
)
def test_losses_that_are_no_mean_log_likelihoods_are_refused(
    loss, units, message
):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])
    model.compile(ivon(), loss)
    x, y = data()
    with pytest.raises(ValueError, match=message):
        model.fit(x, np.repeat(y, units, axis=1), verbose=0)


class Subclass(keras.Model):
    """A model whose outputs Keras knows only once it was called."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, inputs):
        return self.dense(inputs)


def of_outputs(names, shape=(3,)):
    """Makes a model of outputs of two units."""
    inputs = keras.Input(shape)
    outputs = {name: keras.layers.Dense(2)(inputs) for name in names}
    return keras.Model(inputs, outputs)


def penalized():
    """Makes a model with a regularizer that no weight has."""
    layer = keras.layers.Dense(1, activity_regularizer="l2")
    return keras.Sequential([keras.Input((3,)), layer])


NLL = tfr.losses.GaussianNLL(1.0)


@pytest.mark.parametrize(
    ("make", "loss", "weights", "message"),
    [
        (
            lambda: of_outputs("ab"),
            {"a": NLL, "b": "mse"},
            None,
            "mean over the 2 outputs.*GaussianNLL",
        ),
        (
            lambda: of_outputs("a", (5, 3)),
            {"a": "sparse_categorical_crossentropy"},
            None,
            "mean over the 5 positions.*CategoricalNLL",
        ),
        (
            lambda: of_outputs("a", (None, 3)),
            {"a": "mae"},
            None,
            "mean over the several outputs.*StudentTNLL",
        ),
        (Subclass, "log_cosh", None, "loss=.*log_cosh"),
        (Subclass, NLL, 2.0, "loss_weights=2.0"),
        (
            lambda: of_outputs("ab"),
            NLL,
            {"a": 1.0, "b": 0.5},
            "loss_weights=.*0.5",
        ),
        (penalized, NLL, None, "dense.*activity_regularizer=.*L2"),
    ],
)
def test_models_must_be_compiled_with_a_log_likelihood_alone(
    make, loss, weights, message
):
    model = make()
    model.compile(ivon(), loss, loss_weights=weights)
    with pytest.raises(ValueError, match=message):
        model.optimizer.check_loss(model)


def test_a_model_that_is_compiled_again_is_checked_again():
    model = of_outputs("ab")
    for weights in (None, {"a": 1.0, "b": 1.0}):
        model.compile(ivon(), NLL, loss_weights=weights)
        model.optimizer.check_loss(model)
    model.compile(model.optimizer, NLL, loss_weights={"a": 1.0, "b": 0.5})
    with pytest.raises(ValueError, match="loss_weights"):
        model.optimizer.check_loss(model)


def test_gradients_that_are_not_at_draws_are_an_error():
    model = network("sgd")  # which is compiled with another optimizer
    optimizer = ivon()
    x, y = data()

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model.loss(y, model(x)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)

    step()  # builds
    with pytest.raises(ValueError, match=r"draws.*dense.*kernel.*[Cc]ompile"):
        step()
    other = network(optimizer)
    with pytest.raises(ValueError, match="Unknown variable"):
        other.fit(x, y, verbose=0)


def loaded(path, trained, model):
    """Loads the state of a trained model into another one, which it builds."""
    trained.save_weights(path / "a.weights.h5")
    model.optimizer.build(model.trainable_variables)
    model.load_weights(path / "a.weights.h5")
    return model


def frozen():
    model = network()
    model.layers[0].trainable = False
    model.compile(model.optimizer, model.loss)
    return model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: network(ivon(num_samples=3)), "19 arrays.*Received: .*11 arr"),
        (frozen, "7 arrays.*Received: .*11 arrays"),
        (
            lambda: network(ivon(num_train_examples=99)),
            "num_train_examples=99.*Received: .*num_train_examples=40",
        ),
        (
            lambda: network(ivon(prior_scale=None)),
            "prior_scale=None.*Received: .*prior_scale=1.0",
        ),
    ],
)
def test_the_state_of_another_training_is_refused(make, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        loaded(tmp_path, built(), make())


def test_a_state_of_other_shapes_is_refused():
    saved: dict = {}
    built().optimizer.save_own_variables(saved)
    saved["0"] = saved["0"] + 5  # iterations
    saved["4"] = saved["4"][:2]
    optimizer = built().optimizer
    before = [v.numpy() for v in optimizer.variables]
    with pytest.raises(ValueError, match=r"\(3, 4\).*Received: .*\(2, 4\)"):
        optimizer.load_own_variables(saved)
    assert_same(optimizer.variables, before)


@pytest.mark.filterwarnings("ignore:Skipping variable loading")
def test_states_without_a_posterior_are_left_out_as_by_keras(tmp_path):
    """Of a model that was not trained, or by another optimizer."""
    for number, start in enumerate((network(), network("adam"))):
        path = tmp_path / f"{number}.weights.h5"
        start.save_weights(path)
        model = built()
        model.load_weights(path)
        assert int(model.optimizer.iterations) == 0
        assert_same(model.get_weights(), start.get_weights())
    network().save(tmp_path / "a.keras")
    model = keras.models.load_model(tmp_path / "a.keras")
    assert np.all(np.isfinite(fit(model)["loss"]))


@pytest.mark.slow
def test_the_state_of_another_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="loaded"):
        loaded(tmp_path, built(), network(normalized=True))


@pytest.mark.slow
def test_the_state_in_mixed_precision_is_refused_alike(tmp_path):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        with pytest.raises(ValueError, match="num_train_examples=99.*Received"):
            loaded(tmp_path, built(), network(ivon(num_train_examples=99)))
    finally:
        keras.config.set_dtype_policy(before)
