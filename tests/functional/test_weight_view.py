import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tfp_refine import functional
from tfp_refine import layers

WIDE = layers.MeanFieldPosterior(1.0)
OPTIONS = {"kernel_posterior": WIDE, "num_train_examples": 6}


def functional_model():
    """A model with all that can be in the way: BatchNorm, Dropout, metrics."""
    inputs = keras.Input((3,))
    x = layers.DenseFlipout(4, **OPTIONS, seed=1)(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Dropout(0.5)(x)
    x = keras.layers.Dense(3, activation="tanh")(x)
    x = layers.DenseReparameterization(2, **OPTIONS, seed=1)(x)
    model = keras.Model(inputs, x)
    model.compile("adam", "mse", metrics=["mae"])
    model.get_layer(index=2).moving_mean.assign([1.0, -1.0, 2.0, 0.5])
    return model


class Subclassed(keras.Model):
    """A model whose `call` knows nothing of `training`."""

    def __init__(self):
        super().__init__()
        self.first = layers.DenseFlipout(4, **OPTIONS)
        self.second = layers.DenseLocalReparameterization(2, **OPTIONS)

    def call(self, inputs):
        return self.second(self.first(inputs))


def subclassed():
    model = Subclassed()
    model(np.zeros([1, 3], "float32"))
    return model


def deterministic():
    """A model with a penalty, batch statistics and noise of training."""
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, kernel_regularizer=keras.regularizers.L2()),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2),
        ]
    )


MODELS = {
    "functional": functional_model,
    "subclassed": subclassed,
    "deterministic": deterministic,
}
every = pytest.mark.parametrize("name", MODELS)


@pytest.fixture
def x(rng):
    return rng.normal(size=(6, 3)).astype("float32")


def call(view, x, params=None, fixed=None, key=1, index=0):
    params = view.params() if params is None else params
    fixed = view.fixed() if fixed is None else fixed
    return np.asarray(view.call(x, params, fixed, key, index))


@every
@pytest.mark.parametrize("select", ["trainable", "none"])
def test_at_the_means_it_is_the_model(name, select, x):
    model = MODELS[name]()
    view = functional.WeightView(model, select, sample=False)
    with layers.mean_weights():
        expected = model(x)
    np.testing.assert_allclose(call(view, x), expected, rtol=1e-5)


@every
def test_the_vector_is_that_of_the_trainable_weights(name):
    model = MODELS[name]()
    view = functional.WeightView(model)
    expected = np.concatenate([np.ravel(w) for w in model.trainable_weights])
    np.testing.assert_array_equal(view.params(), expected)
    assert view.size == len(expected)
    assert view.dtype == "float32"
    for value, variable in zip(
        view.split(view.params()), model.trainable_weights, strict=True
    ):
        np.testing.assert_array_equal(value, variable)
    # No generator is a weight.
    others = [w for w in model.weights if not w.trainable]
    assert [w.path for w in view.fixed_variables] == [w.path for w in others]
    assert view.shapes == [
        list(w.shape) for w in (*model.trainable_weights, *others)
    ]


@every
def test_without_a_selection_all_weights_are_fixed(name):
    model = MODELS[name]()
    view = functional.WeightView(model, "none")
    assert view.size == 0
    assert view.params().shape == (0,)
    assert view.dtype == "float32"
    assert view.split(view.params()) == []
    for value, weight in zip(view.fixed(), model.weights, strict=True):
        np.testing.assert_array_equal(value, weight)


@every
def test_all_weights_come_as_arguments(name, x):
    view = functional.WeightView(MODELS[name](), sample=False)
    params, fixed = view.params(), view.fixed()
    before = call(view, x)
    changed = call(view, x, params + 0.1)
    assert layer_case.differ(changed, before)
    # The same as after an assignment, which can be undone.
    view.assign(params + 0.1)
    np.testing.assert_array_equal(view.params(), params + 0.1)
    np.testing.assert_allclose(call(view, x), changed, rtol=1e-5)
    np.testing.assert_array_equal(call(view, x, params), before)
    if fixed:
        moved = [value + 0.5 for value in fixed]
        view.assign(params, moved)
        for value, expected in zip(view.fixed(), moved, strict=True):
            np.testing.assert_array_equal(value, expected)
        assert layer_case.differ(call(view, x), before)
        np.testing.assert_array_equal(call(view, x, params, fixed), before)


@every
def test_nothing_is_assigned_to_the_model(name, x):
    model = MODELS[name]()
    view = functional.WeightView(model)
    before = layer_case.values(model.variables)
    call(view, x, view.params() + 1.0, key=3, index=5)
    view.call_and_update(x, view.params(), view.fixed(), 1, 0, True)
    for old, new in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("name", ["functional", "subclassed"])
def test_key_and_index_fix_the_draws(name, x):
    model = MODELS[name]()
    view = functional.WeightView(model)
    assert view.is_random
    expected = call(view, x, key=2, index=3)
    model(x)  # the model's own generators go on
    np.testing.assert_array_equal(call(view, x, key=2, index=3), expected)
    for key, index in ((3, 3), (2, 4), (2, 0), (2**31 - 3, 3)):
        other = call(view, x, key=key, index=index)
        assert layer_case.differ(other, expected), (key, index)
    again = call(view, x, key=tf.constant(2, tf.int64), index=tf.constant(3))
    np.testing.assert_array_equal(again, expected)


def test_the_model_runs_in_inference_mode(x):
    view = functional.WeightView(deterministic())
    assert not view.is_random
    np.testing.assert_array_equal(call(view, x), call(view, x, key=2))


def test_layers_draw_independently_of_each_other_and_of_their_next_call():
    inputs = keras.Input((1,))
    posterior = {
        "kernel_initializer": "zeros",
        "kernel_posterior": WIDE,
        "use_bias": False,
        "seed": 1,
    }
    first = layers.DenseReparameterization(2000, **posterior)
    second = layers.DenseReparameterization(2000, **posterior)
    outputs = [first(inputs), second(inputs), first(inputs)]
    view = functional.WeightView(keras.Model(inputs, outputs))
    ones = np.ones([1, 1], "float32")
    draws = [
        np.ravel(draw)
        for key, index in ((7, 0), (7, 1), (1234, 0))
        for draw in view.call(ones, view.params(), view.fixed(), key, index)
    ]
    correlations = np.corrcoef(draws) - np.eye(len(draws))
    # 36 pairs: false alarm once in 1e8.
    assert np.max(np.abs(correlations)) < 6.5 / np.sqrt(2000)


class _ManyDraws(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(1)

    def call(self, inputs):
        draws = [
            keras.random.uniform((), seed=self.seed_generator)
            for _ in range(1100)
        ]
        return inputs * keras.ops.stack(draws)


@pytest.mark.slow
def test_calls_share_no_draw_however_many_each_makes():
    model = keras.Sequential([keras.Input((1,)), _ManyDraws()])
    view = functional.WeightView(model, "none")
    assert view.is_random
    calls = [
        np.ravel(call(view, tf.ones((1, 1)), key=3, index=index))
        for index in (0, 1)
    ]
    # A shared stretch of a stream shows many times; two equal float32 of
    # 2200 by chance about once in seven runs, four never.
    assert len(np.intersect1d(*calls)) < 4


def test_nested_inputs_and_outputs():
    inputs = {
        "a": keras.Input((3,), name="a"),
        "b": keras.Input((2,), name="b"),
    }
    joined = keras.layers.Concatenate()([inputs["a"], inputs["b"]])
    outputs = {
        "mean": layers.DenseFlipout(1, kernel_posterior=WIDE)(joined),
        "rest": [joined],
    }
    model = keras.Model(inputs, outputs)
    view = functional.WeightView(model, sample=False)
    x = {"a": np.ones([4, 3], "float32"), "b": np.zeros([4, 2], "float32")}
    found = view.call(x, view.params(), [], 1, 0)
    with layers.mean_weights():
        expected = model(x)
    np.testing.assert_allclose(found["mean"], expected["mean"], rtol=1e-6)
    np.testing.assert_array_equal(found["rest"][0], expected["rest"][0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["functional", "subclassed"])
def test_under_map_fn_each_member_is_what_it_is_alone(name, x):
    view = functional.WeightView(MODELS[name]())
    params, fixed = view.params(), view.fixed()
    members = tf.stack([params, params, params + 0.3])
    keys = tf.constant([5, 6, 5], tf.int64)

    @tf.function
    def together():
        return tf.map_fn(
            lambda i: view.call(x, members[i], fixed, keys[i], 2),
            tf.range(3),
            fn_output_signature=tf.float32,
        )

    outputs = np.asarray(together())
    for i in range(3):
        alone = call(view, x, members[i], key=keys[i], index=2)
        np.testing.assert_allclose(outputs[i], alone, rtol=1e-5, atol=1e-6)
    assert layer_case.differ(outputs[0], outputs[1])
    assert layer_case.differ(outputs[0], outputs[2])


def test_a_weight_that_is_frozen_later_is_still_an_argument(x):
    model = deterministic()
    view = functional.WeightView(model)
    before, size = call(view, x), view.size
    model.layers[0].trainable = False
    np.testing.assert_array_equal(call(view, x), before)
    assert layer_case.differ(call(view, x, view.params() + 0.1), before)
    # A new view leaves it out: a kernel `[3, 4]` and a bias `[4]`.
    assert functional.WeightView(model).size == size - 16


def test_gradients_are_those_of_the_model(x):
    model = deterministic()
    view = functional.WeightView(model)
    params = view.params()
    with tf.GradientTape() as tape:
        tape.watch(params)
        total = tf.reduce_sum(
            tf.square(view.call(x, params, view.fixed(), 1, 0))
        )
    gradient = tape.gradient(total, params)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.square(model(x)))
    expected = tape.gradient(total, [v.value for v in view.variables])
    for one, other in zip(view.split(gradient), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


# In training.


def test_training_returns_what_it_changes(x):
    model = deterministic()
    view = functional.WeightView(model)
    params, fixed = view.params(), view.fixed()

    def train(key, index):
        return view.call_and_update(x, params, fixed, key, index, True)

    outputs, after, penalty = train(1, 0)
    np.testing.assert_array_equal(train(1, 0)[0], outputs)
    for other in (train(2, 0), train(1, 1)):
        assert np.max(np.abs(other[0] - outputs)) > 0.1
    model(x, training=True)
    np.testing.assert_allclose(penalty, sum(model.losses), rtol=1e-6)
    for value, variable in zip(after, view.fixed_variables, strict=True):
        np.testing.assert_allclose(value, variable, rtol=1e-5)


def test_inference_changes_nothing(x):
    model = deterministic()
    view = functional.WeightView(model)
    outputs, after, penalty = view.call_and_update(
        x, view.params(), view.fixed(), 1, 0, False
    )
    np.testing.assert_allclose(outputs, model(x), rtol=1e-5)
    np.testing.assert_allclose(penalty, sum(model.losses), rtol=1e-6)
    for value, expected in zip(after, view.fixed(), strict=True):
        np.testing.assert_array_equal(value, expected)


def test_models_without_penalty_or_other_weights_do(x):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    view = functional.WeightView(model)
    outputs, after, penalty = view.call_and_update(
        x, view.params(), [], 0, 0, True
    )
    np.testing.assert_allclose(outputs, model(x), rtol=1e-6)
    assert after == []
    assert float(penalty) == 0.0


# For posteriors.


def test_a_vector_may_be_read_from_another_model_of_the_kind():
    model, other = deterministic(), deterministic()
    view = functional.WeightView(model)
    expected = functional.WeightView(other).params()
    np.testing.assert_array_equal(view.params(other), expected)


def test_a_digest_is_of_architecture_and_shapes():
    def digest(units=4, activation=None, select="trainable"):
        model = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dense(units, activation=activation),
                keras.layers.Dense(2),
            ]
        )
        return functional.WeightView(model, select).digest()

    assert digest() == digest()  # whatever the names and the weights are
    assert len({digest(), digest(5), digest(activation="relu")}) == 3


def test_draws_are_of_what_they_share(x):
    view = functional.WeightView(functional_model())
    params, fixed = view.params(), view.fixed()
    shared = view.shared(x, fixed)
    np.testing.assert_array_equal(
        view.draws(shared, params, fixed, 3, 1),
        call(view, x, key=3, index=1),
    )


def test_programs_are_compiled_once_for_each_kind_of_inputs():
    view = functional.WeightView(deterministic())

    def program(name, *arguments):
        return view.compiled(name, lambda v: v, arguments, (True,))

    first = program("one", tf.zeros([3, 2]))
    assert program("one", tf.zeros([9, 2])) is first
    for other in (
        program("two", tf.zeros([3, 2])),
        program("one", tf.zeros([3, 4])),
        program("one", tf.zeros([3, 2], tf.int32)),
        program("one", [tf.zeros([3, 2])]),
    ):
        assert other is not first


# Models without a view.


def test_what_is_no_built_model_is_refused():
    with pytest.raises(ValueError, match="`model` must be a keras.Model.*str"):
        functional.WeightView("model")
    unbuilt = keras.Sequential([keras.layers.Dense(1)], name="later")
    with pytest.raises(ValueError, match="'later' is not built"):
        functional.WeightView(unbuilt)


def test_models_that_have_no_weights_are_refused():
    model = keras.Sequential([keras.Input((3,)), keras.layers.ReLU()])
    with pytest.raises(ValueError, match="has no trainable weights"):
        functional.WeightView(model)
    assert functional.WeightView(model, "none").fixed() == []


def test_weights_of_several_dtypes_are_refused():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, dtype="float64"),
            keras.layers.Dense(2, dtype="float32"),
        ]
    )
    with pytest.raises(ValueError, match="one dtype. Received: float32, flo"):
        functional.WeightView(model)
