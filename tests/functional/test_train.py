import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.functional import train
from tfp_refine.functional import update_rules

N = 12
EXAMPLES = np.arange(N, dtype=np.float32)
# Batch sizes, with another choice.
_QUICK = ((5, True), (N, False))
_SLOW = (
    pytest.param(5, False, marks=pytest.mark.slow),
    pytest.param(N, True, marks=pytest.mark.slow),
)


def recorded_loss(params, fixed, common, batch, key, step):
    """Half the mean squared error of a mean; the fixed weights are batches."""
    del common, key
    (seen,) = fixed
    loss = 0.5 * tf.reduce_mean(tf.square(params - batch))
    # Indices are int32 where members are vectorized.
    row = tf.cast(step, tf.int32)
    seen = tf.tensor_scatter_nd_update(seen, [[row]], [batch])
    return loss, loss, [seen]


def start(rule, params, steps, size):
    params = np.asarray(params, np.float32)
    seen = np.full((len(params), steps, size), -1.0, np.float32)
    return train.State(params, [seen], rule.zeros(params))


def run(program, state, begin, end, keys=None, rate=0.1):
    count = len(state.params)
    return program(
        state,
        (),
        tf.constant(range(count) if keys is None else keys, tf.int64),
        tf.constant(rate),
        tf.constant(begin, tf.int64),
        tf.constant(end, tf.int64),
        (),
        EXAMPLES,
    )


def batches_seen(batch_size, steps, bootstrap=False, members=2):
    """Returns the examples of each step, `[M, T, B]`."""
    batches = train.Batches(N, batch_size, bootstrap)
    rule = update_rules.Momentum(0.0)
    program = train.make_program(recorded_loss, rule, batches)
    state = start(rule, np.zeros(members), steps, batches.size)
    return run(program, state, 0, steps).state.fixed[0].numpy()


@pytest.mark.parametrize("bootstrap", [False, True])
def test_each_epoch_has_all_examples_in_an_order_of_its_own(bootstrap):
    epochs = batches_seen(1, 3 * N, bootstrap).reshape(2, 3, N)
    assert len({tuple(epoch) for epoch in epochs.reshape(6, N)}) == 6
    for member in epochs:
        examples = np.sort(member)
        np.testing.assert_array_equal(examples, examples[[0, 0, 0]])
        assert np.array_equal(examples[0], EXAMPLES) == (not bootstrap)
    own = np.sort(epochs[:, 0])
    assert np.array_equal(own[0], own[1]) == (not bootstrap)


def test_the_last_smaller_batch_of_an_epoch_is_left_out():
    seen = batches_seen(5, 4)
    assert seen.shape == (2, 4, 5)
    for epoch in (seen[:, :2], seen[:, 2:]):
        for member in epoch.reshape(2, 10):
            assert len(set(member)) == 10


@pytest.mark.parametrize("batch_size", [N, 100])
def test_a_batch_for_all_examples_takes_all(batch_size):
    seen = batches_seen(batch_size, 3)
    assert seen.shape == (2, 3, N)
    np.testing.assert_array_equal(np.sort(seen), np.tile(EXAMPLES, (2, 3, 1)))


def test_bootstrapped_examples_are_drawn_alike():
    seen = batches_seen(N, 1, bootstrap=True, members=2000)
    counts = np.bincount(seen.astype(int).ravel(), minlength=N)
    # Six standard deviations.
    deviation = 6.0 * np.sqrt(2000 * N * (1 / N) * (1 - 1 / N))
    assert np.abs(counts - 2000).max() < deviation


@pytest.mark.parametrize("batch_size", [5, N])
def test_a_training_in_parts_ends_in_the_same_place(batch_size):
    rule = update_rules.Adam()
    batches = train.Batches(N, batch_size)
    program = train.make_program(recorded_loss, rule, batches)
    state = start(rule, [1.0, 2.0], 9, batches.size)
    whole = run(program, state, 0, 9)
    parts = state
    for begin, end in ((0, 3), (3, 4), (4, 9)):  # within epochs of 2 steps
        parts = run(program, parts, begin, end).state
    tf.nest.map_structure(np.testing.assert_array_equal, parts, whole.state)
    assert program.trace_count == 1


@pytest.mark.slow
@pytest.mark.parametrize(("batch_size", "vectorized"), [*_QUICK, *_SLOW])
def test_a_member_is_the_same_alone_and_in_any_batch(batch_size, vectorized):
    rule = update_rules.Momentum(0.5, 0.1, lambda number: number > 2)
    batches = train.Batches(N, batch_size, bootstrap=True)
    program = train.make_program(
        recorded_loss, rule, batches, vectorized=vectorized
    )
    keys = [7, 3, 5]
    params = [1.0, 2.0, 3.0]
    together = run(
        program, start(rule, params, 6, batches.size), 0, 6, keys
    ).state
    for index in range(3):
        alone = run(
            program,
            start(rule, params[index : index + 1], 6, batches.size),
            0,
            6,
            keys[index : index + 1],
        ).state
        np.testing.assert_allclose(
            alone.params[0], together.params[index], rtol=1e-6
        )
        np.testing.assert_array_equal(
            alone.fixed[0][0], together.fixed[0][index]
        )
    assert program.trace_count == 1


@pytest.mark.slow
@pytest.mark.parametrize(("batch_size", "bootstrap"), [*_QUICK, *_SLOW])
def test_vectorized_members_are_the_mapped_ones(batch_size, bootstrap):
    rule = update_rules.Adam()
    batches = train.Batches(N, batch_size, bootstrap)
    mapped, vectorized = (
        run(
            train.make_program(recorded_loss, rule, batches, vectorized=value),
            start(rule, [1.0, -2.0, 0.5], 7, batches.size),
            0,
            7,
        )
        for value in (False, True)
    )
    np.testing.assert_array_equal(
        mapped.state.fixed[0], vectorized.state.fixed[0]
    )
    np.testing.assert_allclose(
        mapped.state.params, vectorized.state.params, rtol=1e-6
    )
    np.testing.assert_allclose(mapped.loss, vectorized.loss, rtol=1e-6)


def test_the_learning_rate_follows_the_schedule():
    rule = update_rules.Momentum(0.0)

    def loss(params, fixed, common, batch, key, step):
        # A gradient of -1: the sum of all rates.
        return -params, tf.cast(step, tf.float32), fixed

    program = train.make_program(
        loss,
        rule,
        train.Batches(N, N),
        schedule=update_rules.decay("linear", 10),
    )
    params = np.zeros(1, np.float32)
    result = run(program, train.State(params, [], rule.zeros(params)), 2, 5)
    np.testing.assert_allclose(result.state.params, [0.1 * (0.8 + 0.7 + 0.6)])
    np.testing.assert_allclose(result.loss, [3.0])


def test_a_gradient_from_outside_is_added():
    rule = update_rules.Momentum(0.0)
    program = train.make_program(
        lambda params, fixed, *_: (0.0 * params, 0.0 * params, fixed),
        rule,
        train.Batches(N, N),
        extra_gradient=lambda params, constants: constants - params,
    )
    params = np.ones(2, np.float32)
    result = program(
        train.State(params, [], rule.zeros(params)),
        np.array([3.0, 5.0], np.float32),
        tf.constant([0, 1], tf.int64),
        tf.constant(1.0),
        tf.constant(0, tf.int64),
        tf.constant(1, tf.int64),
        (),
        EXAMPLES,
    )
    np.testing.assert_allclose(result.state.params, [-1.0, -3.0])


def test_a_member_whose_loss_is_not_finite_stops_alone():
    rule = update_rules.Momentum(0.0)

    def loss(params, fixed, common, batch, key, step):
        bad = (key == 1) & (step >= 3)
        value = tf.where(bad, np.float32(np.nan), params)
        return value, value, fixed

    program = train.make_program(loss, rule, train.Batches(N, N))
    params = np.zeros(3, np.float32)
    result = run(program, train.State(params, [], rule.zeros(params)), 0, 8)
    np.testing.assert_array_equal(result.failed_step, [-1, 3, -1])
    np.testing.assert_allclose(result.state.params.numpy()[[0, 2]], -0.8)
    with pytest.raises(FloatingPointError, match="member 1 .* step 3"):
        train.check_finite(result, 0, 8)


@pytest.mark.parametrize(
    ("rule", "optimizer"),
    [
        (update_rules.Adam(), keras.optimizers.Adam(0.1)),
        (update_rules.Momentum(0.0), keras.optimizers.SGD(0.1)),
        (update_rules.Momentum(0.9), keras.optimizers.SGD(0.1, momentum=0.9)),
    ],
    ids=["adam", "descent", "momentum"],
)
def test_update_rules_are_those_of_keras(rng, rule, optimizer):
    params = tf.constant(rng.normal(size=5), tf.float32)
    variable = keras.Variable(params)
    slots, key = rule.zeros(params), tf.constant(0, tf.int64)
    for number in range(10):
        gradient = tf.constant(rng.normal(size=5), tf.float32)
        optimizer.apply([gradient], [variable])
        params, slots = rule.step(
            params, gradient, slots, tf.constant(number), tf.constant(0.1), key
        )
        np.testing.assert_allclose(params, variable, rtol=1e-5, atol=1e-6)


def test_noise_comes_only_when_it_should():
    rule = update_rules.Momentum(0.5, 4.0, lambda number: number >= 10)
    zeros = tf.zeros([1000])
    state = rule.zeros(zeros)
    rate, key = tf.constant(0.25), tf.constant(1, tf.int64)
    quiet, _ = rule.step(zeros, zeros, state, tf.constant(9), rate, key)
    np.testing.assert_array_equal(quiet, 0.0)
    noisy, _ = rule.step(zeros, zeros, state, tf.constant(10), rate, key)
    # Six standard errors of the standard deviation of 1000 draws.
    assert abs(np.std(noisy) - 1.0) < 6.0 / np.sqrt(2000.0)
    other, _ = rule.step(zeros, zeros, state, tf.constant(11), rate, key)
    assert abs(np.corrcoef(noisy, other)[0, 1]) < 6.0 / np.sqrt(1000.0)


def test_noise_of_samples_is_not_that_of_layers():
    rule = update_rules.Momentum(0.0, 1.0, lambda number: True)
    zeros, number = tf.zeros([1000]), tf.constant(7)
    key = tf.constant(3, tf.int64)
    noise, _ = rule.step(
        zeros, zeros, rule.zeros(zeros), number, tf.constant(1.0), key
    )
    of_layers = tf.random.stateless_normal([1000], [3, 7])
    # Six standard errors.
    assert abs(np.corrcoef(noise, of_layers)[0, 1]) < 6.0 / np.sqrt(1000.0)


def test_learning_rates_fall_and_return():
    cycle = update_rules.cycle(10)
    rates = [float(cycle(number)) for number in range(20)]
    np.testing.assert_allclose(rates[:10], rates[10:])
    np.testing.assert_allclose(rates[0], 1.0)
    np.testing.assert_allclose(rates[5], 0.5, rtol=1e-6)
    assert update_rules.decay("constant", 10) is None
    for name in ("linear", "cosine"):
        decay = update_rules.decay(name, 10)
        np.testing.assert_allclose(float(decay(0)), 1.0, rtol=1e-6)
        np.testing.assert_allclose(float(decay(5)), 0.5, rtol=1e-6)
        assert float(decay(9)) < 0.11
        np.testing.assert_allclose(float(decay(10)), 0.0, atol=1e-7)
    with pytest.raises(ValueError, match="learning_rate_decay"):
        update_rules.decay("step", 10)


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("vectorized", [False, True])
def test_models_train_as_by_keras(rng, vectorized, jit_compile):
    x = rng.normal(size=(N, 3)).astype(np.float32)
    y = x[:, :1] * 2.0
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, "tanh", kernel_regularizer="l2"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "mse")
    view = functional.WeightView(model)
    objective = functional.Objective(view, x, y)

    def loss(params, fixed, common, batch, key, step):
        nll, fixed, penalty = objective.training_loss(
            batch, params, fixed, key, step
        )
        return nll + penalty, nll, fixed

    rule = update_rules.Adam()
    params, fixed = tf.nest.map_structure(
        lambda value: tf.stack([value, value]),
        (objective.params, objective.fixed),
    )
    result = train.make_program(
        loss,
        rule,
        train.Batches(N, N),
        vectorized=vectorized,
        jit_compile=jit_compile,
    )(
        train.State(params, fixed, rule.zeros(params)),
        (),
        tf.constant([0, 1], tf.int64),
        tf.constant(0.01),
        tf.constant(0, tf.int64),
        tf.constant(20, tf.int64),
        (),
        objective.data,
    )
    model.fit(x, y, batch_size=N, epochs=20, verbose=0)
    for member in range(2):
        np.testing.assert_allclose(
            result.state.params[member], view.params(), rtol=1e-3, atol=1e-4
        )
        for value, expected in zip(
            result.state.fixed, view.fixed(), strict=True
        ):
            np.testing.assert_allclose(
                value[member], expected, rtol=1e-3, atol=1e-5
            )


@pytest.mark.parametrize("bootstrap", [False, True])
def test_examples_of_a_step_are_not_kept_on_the_host(bootstrap):
    batches = train.Batches(10, 4, bootstrap)
    key = tf.constant(1, tf.int64)
    order = batches.order(batches.rows(key), 0, key)
    assert order.dtype == "int64"


def test_the_loss_of_parts_is_the_mean_over_their_steps():
    class Feed:
        def part(self, begin, end):
            return min(end, begin + 2), None

    def program(state, constants, keys, rate, begin, end, common, part):
        ended = tf.constant([-1], tf.int64)
        return train.Result(state, tf.constant([float(begin) + 1.0]), ended)

    # A part of two steps with a loss of 1, and one of one step with 3.
    _, mean = train.take_steps(program, Feed(), None, None, None, 0, 3)
    np.testing.assert_allclose(mean, [5.0 / 3.0], rtol=1e-6)
