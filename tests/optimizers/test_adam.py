import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr

KERAS, OURS = keras.optimizers.Adam, tfr.optimizers.Adam
SHAPES = ((5, 3), (4,), ())
KERNEL = "ResourceApplyAdam"


def trajectory(make, dtype, steps=50, eager=False, exclude=None):
    """Returns the variables, and those of the optimizer, after some steps."""
    rng = np.random.default_rng(0)
    variables = [
        keras.Variable(rng.normal(size=shape), dtype=dtype, name=f"v{i}")
        for i, shape in enumerate(SHAPES)
    ]
    optimizer = make()
    if exclude:
        optimizer.exclude_from_weight_decay(var_names=[exclude])

    def step(*gradients):
        optimizer.apply(list(gradients), variables)

    optimizer.build(variables)
    step = step if eager else tf.function(step)
    for number in range(steps):
        size = 1.0 + number % 3
        step(*[tf.constant(size * rng.normal(size=s), dtype) for s in SHAPES])
    return [np.array(v) for v in [*variables, *optimizer.variables]]


@pytest.fixture
def float64():
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx(before)


def options():
    """Returns arguments of the optimizers, by name."""
    schedules = keras.optimizers.schedules
    return {
        "defaults": {},
        "betas": {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 0.1},
        "amsgrad": {"amsgrad": True},
        "schedule": {"learning_rate": schedules.CosineDecay(0.1, 40)},
        "callable": {"learning_rate": lambda: 0.01},
        "weight_decay": {"weight_decay": 0.1},
        "excluded": {"weight_decay": 0.1, "exclude": "v1"},
        "clipnorm": {"clipnorm": 0.5},
        "global_clipnorm": {"global_clipnorm": 0.5},
        "clipvalue": {"clipvalue": 0.5},
        "ema": {"use_ema": True, "ema_overwrite_frequency": 7},
        "loss_scale": {"loss_scale_factor": 128.0},
        "accumulation": {"gradient_accumulation_steps": 3},
    }


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", options())
def test_a_step_is_that_of_keras_with_every_argument(name):
    arguments = options()[name]
    exclude = arguments.pop("exclude", None)
    found, expected = (
        trajectory(lambda c=c: c(**arguments), "float64", exclude=exclude)
        for c in (OURS, KERAS)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=0)


@pytest.mark.usefixtures("float64")
def test_a_step_is_that_of_keras_without_a_graph():
    found, expected = (
        trajectory(c, "float64", steps=5, eager=True) for c in (OURS, KERAS)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=0)


@pytest.mark.slow
def test_many_steps_in_float32_agree_with_keras_to_its_rounding_of_beta_2():
    start = trajectory(OURS, "float32", steps=0)
    found, expected = (
        trajectory(c, "float32", steps=1000) for c in (OURS, KERAS)
    )
    for before, one, other in zip(start, found, expected, strict=True):
        size = np.max(np.abs(other - before))
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5 * size)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_variables_in_half_precision_are_updated_as_by_keras(dtype):
    found, expected = (trajectory(c, dtype) for c in (OURS, KERAS))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def operations(optimizer, gradient, dtype="float32"):
    """Returns the types of the operations of a step."""
    variable = keras.Variable(np.ones((4, 2)), dtype=dtype)
    optimizer.build([variable])

    @tf.function
    def step():
        optimizer.apply([gradient(variable)], [variable])

    graph = step.get_concrete_function().graph
    return {operation.type for operation in graph.get_operations()}


def dense(variable):
    return tf.ones(variable.shape, variable.dtype)


def sparse(variable):
    return tf.IndexedSlices(
        tf.ones((2, 2), variable.dtype), tf.constant([1, 3]), variable.shape
    )


def test_the_kernel_is_called_where_its_results_are_those_of_keras():
    assert KERNEL in operations(OURS(), dense)
    assert KERNEL in operations(OURS(), dense, "float64")
    assert KERNEL not in operations(KERAS(), dense)
    assert KERNEL not in operations(OURS(amsgrad=True), dense)
    assert KERNEL not in operations(OURS(), sparse)
    assert KERNEL not in operations(OURS(), dense, "bfloat16")


def test_a_variable_of_keras_may_be_updated_by_itself():
    variable = keras.Variable([1.0, 2.0])
    optimizer = OURS(0.1)
    optimizer.build([variable])
    optimizer.update_step(tf.ones(2), variable, 0.1)
    np.testing.assert_allclose(variable, [0.9, 1.9], rtol=1e-5)


def test_values_that_were_read_before_a_step_stay():
    variable = keras.Variable([1.0, 2.0])
    optimizer = OURS(0.1)
    optimizer.build([variable])
    before = tf.convert_to_tensor(variable)
    array = variable.numpy()
    optimizer.apply([tf.ones(2)])
    np.testing.assert_array_equal(before, [1.0, 2.0])
    np.testing.assert_array_equal(array, [1.0, 2.0])


def data(size=40):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(size, 3)).astype("float32")
    return x, x[:, :1] ** 2


def network(optimizer, **arguments):
    """Returns a compiled network without random numbers."""
    keras.utils.set_random_seed(1)
    layer = tfr.layers.DenseFlipout
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layer(4, "tanh", sample=False, num_train_examples=40),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer, "mse", **arguments)
    return model


def trained(optimizer, epochs=3, callbacks=None, **arguments):
    """Returns the weights of the network after training."""
    model = network(optimizer, **arguments)
    x, y = data()
    model.fit(x, y, 10, epochs, shuffle=False, verbose=0, callbacks=callbacks)
    return model.get_weights()


def assert_close(weights, expected):
    for one, other in zip(weights, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"jit_compile": True}, marks=pytest.mark.slow),
        {"steps_per_execution": 3},
        pytest.param({"run_eagerly": True}, marks=pytest.mark.slow),
    ],
)
def test_fit_gives_the_weights_of_keras(arguments):
    # The steps move the weights by 0.1: the tolerance is a ten-thousandth.
    expected = trained(KERAS(0.01), run_eagerly=True)
    assert_close(trained(OURS(0.01), **arguments), expected)


@pytest.mark.slow
def test_a_callback_changes_the_learning_rate():
    def callbacks():
        return [keras.callbacks.LearningRateScheduler(lambda n: 0.01 * n)]

    expected = trained(KERAS(1.0), callbacks=callbacks())
    assert_close(trained(OURS(1.0), callbacks=callbacks()), expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scale", [pytest.param(2.0**10, marks=pytest.mark.slow), 2.0**120]
)
def test_mixed_precision_scales_the_loss_and_skips_what_overflows(scale):
    def weights(make):
        optimizer = keras.optimizers.LossScaleOptimizer(make(0.01), scale)
        return [*trained(optimizer), *map(np.array, optimizer.variables)]

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        expected, found = weights(KERAS), weights(OURS)
    finally:
        keras.config.set_dtype_policy(before)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-4)


@pytest.mark.slow
def test_frozen_and_low_rank_weights_are_updated_as_by_keras():
    def weights(make):
        model = network("sgd")
        model.layers[0].trainable = False
        model.layers[1].enable_lora(2)
        model.compile(make(0.01), "mse")
        model.fit(*data(), 10, 3, shuffle=False, verbose=0)
        return model.get_weights()

    assert_close(weights(OURS), weights(KERAS))


@pytest.mark.slow
def test_an_embedding_is_updated_as_by_keras():
    def weights(make):
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [
                keras.Input((2,), dtype="int32"),
                keras.layers.Embedding(6, 2),
                keras.layers.Flatten(),
                keras.layers.Dense(1),
            ]
        )
        model.compile(make(0.01), "mse")
        x = np.arange(8).reshape(4, 2) % 5
        model.fit(x, x[:, :1], 2, 3, shuffle=False, verbose=0)
        return model.get_weights()

    assert_close(weights(OURS), weights(KERAS))


@pytest.mark.slow
def test_training_continues_from_a_file_bit_for_bit(tmp_path):
    x, y = data()
    model = network(OURS(0.01, weight_decay=1e-3))
    model.fit(x, y, 10, 2, shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is OURS
    for each in (model, loaded):
        each.fit(x, y, 10, 2, shuffle=False, verbose=0)
    for one, other in zip(
        [*model.get_weights(), *map(np.array, model.optimizer.variables)],
        [*loaded.get_weights(), *map(np.array, loaded.optimizer.variables)],
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"), [(KERAS, OURS), (OURS, KERAS)], ids=["ours", "keras"]
)
def test_training_continues_with_the_other_class(first, second, tmp_path):
    x, y = data()
    path = tmp_path / "model.weights.h5"
    model, other = network(first(0.01)), network(second(0.01))
    model.fit(x, y, 10, 2, shuffle=False, verbose=0)
    model.save_weights(path)
    other.optimizer.build(other.trainable_variables)
    other.load_weights(path)
    for each in (model, other):
        each.fit(x, y, 10, 2, shuffle=False, verbose=0)
    assert_close(other.get_weights(), model.get_weights())


def test_the_config_makes_ours_and_not_the_class_of_keras_of_that_name():
    optimizer = OURS(0.1, beta_2=0.9, clipnorm=1.0)
    for serialize, deserialize in (
        (keras.optimizers.serialize, keras.optimizers.deserialize),
        (
            keras.saving.serialize_keras_object,
            keras.saving.deserialize_keras_object,
        ),
    ):
        copy = deserialize(serialize(optimizer))
        assert type(copy) is OURS
        assert copy.get_config() == optimizer.get_config()
    assert type(keras.optimizers.get("adam")) is KERAS
