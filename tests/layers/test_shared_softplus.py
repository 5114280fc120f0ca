import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import layers
from tfp_refine.layers import shared_softplus

RAW = np.linspace(-9.0, 9.0, 12).reshape(3, 4)
X = np.linspace(-1.0, 1.0, 15).reshape(5, 3).astype("float32")
LAYERS = [
    layers.DenseReparameterization,
    layers.DenseLocalReparameterization,
    layers.DenseFlipout,
]
every_layer = pytest.mark.parametrize("make", LAYERS)


def scale(value):
    return np.log1p(np.exp(value))


@pytest.fixture
def variable():
    return keras.Variable(RAW, dtype="float64")


@pytest.fixture
def layer():
    """Returns a layer `[3, 4]` of one posterior."""
    return build(layers.DenseReparameterization, use_bias=False)


def build(make, **arguments):
    layer = make(4, num_train_examples=10, seed=1, **arguments)
    layer.build((None, 3))
    return layer


def count(function, *arguments):
    """Returns the number of softplus ops in a function's trace."""
    graph = tf.function(function).get_concrete_function(*arguments).graph
    return sum(op.type == "Softplus" for op in graph.get_operations())


def gradients(layer, loss):
    with tf.GradientTape() as tape:
        value = loss(layer)
    return tape.gradient(value, [w.value for w in layer.trainable_weights])


def forward_and_kl(layer):
    """The loss of a training step, with draws that do not change."""
    layer.seed_generator.state.assign([1, 0])
    outputs = layer(tf.constant(X))
    return tf.reduce_sum(tf.square(outputs)) + sum(layer.losses)


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("traced", [False, True])
def test_softplus_has_its_derivatives_up_to_the_third(variable, traced):
    def derivatives():
        raw = variable.value
        with tf.GradientTape() as third:
            with tf.GradientTape() as second:
                with tf.GradientTape() as first:
                    shared_softplus.softplus(variable)
                    value = shared_softplus.softplus(variable)
                one = first.gradient(value, raw)
            two = second.gradient(one, raw)
        return value, one, two, third.gradient(two, raw)

    found = tf.function(derivatives)() if traced else derivatives()
    slope = 1.0 / (1.0 + np.exp(-RAW))
    bend = slope * (1.0 - slope)
    assert_same(found, [scale(RAW), slope, bend, bend * (1.0 - 2.0 * slope)])


@pytest.mark.parametrize(
    ("make", "posterior"),
    [
        pytest.param(
            make,
            posterior,
            marks=[pytest.mark.slow] * (i != j and posterior != "mean_field"),
        )
        for i, make in enumerate(LAYERS)
        for j, posterior in enumerate(["mean_field", "low_rank", "k_tied"])
    ],
)
def test_a_step_computes_it_once_with_the_gradients_of_an_eager_step(
    make, posterior
):
    layer = build(make, kernel_posterior=posterior, bias_posterior=posterior)

    def step():
        return gradients(layer, forward_and_kl)

    expected = gradients(layer, forward_and_kl)
    assert all(np.any(np.array(one) != 0.0) for one in expected)
    assert_same(tf.function(step)(), expected)
    assert count(step) == {"k_tied": 4}.get(posterior, 2)


def by_assign(variable):
    variable.assign(RAW + 1.0)


def by_value(variable):
    variable.value.assign_add(tf.ones_like(RAW))


def by_function(variable):
    tf.function(lambda: by_value(variable))()


def by_cond(variable):
    tf.cond(tf.constant(True), lambda: inside(variable), lambda: 0)


def by_loop(variable):
    tf.while_loop(
        lambda i: i < 1, lambda i: i + inside(variable), [tf.constant(0)]
    )


def inside(variable):
    by_value(variable)
    return 1


def by_optimizer(variable):
    optimizer = tf.raw_ops.ResourceApplyGradientDescent
    optimizer(
        var=variable.value.handle,
        alpha=tf.constant(1.0, tf.float64),
        delta=-tf.ones_like(RAW),
    )


@pytest.mark.parametrize(
    "write",
    [by_assign, by_value, by_function, by_cond, by_loop, by_optimizer],
)
def test_a_variable_that_is_written_to_in_a_trace_is_read_anew(variable, write):
    @tf.function
    def step():
        before = shared_softplus.softplus(variable)
        write(variable)
        return before, shared_softplus.softplus(variable)

    assert_same(step(), [scale(RAW), scale(RAW + 1.0)])


@every_layer
@pytest.mark.parametrize("traced", [False, True])
def test_scales_assigned_after_the_forward_pass_are_those_of_the_kl(
    make, traced
):
    layer = build(make)
    (kernel, _) = layer.variational_weights

    def step():
        layer(tf.constant(X))
        kernel.assign(scale=tf.fill((3, 4), 0.5))
        late = layer.losses[0]
        kernel.assign(scale=tf.fill((3, 4), 0.25))
        return late, layer.losses[0]

    first, second = tf.function(step)() if traced else step()
    kernel.assign(scale=np.full((3, 4), 0.5))
    np.testing.assert_allclose(first, layer.losses[0], rtol=1e-6)
    kernel.assign(scale=np.full((3, 4), 0.25))
    np.testing.assert_allclose(second, layer.losses[0], rtol=1e-6)


def test_a_tape_that_starts_after_the_forward_pass_sees_the_scales(layer):
    def late():
        layer(tf.constant(X))
        return gradients(layer, lambda layer: sum(layer.losses))

    assert_same(tf.function(late)(), late())


def test_values_of_an_inner_graph_stay_there(layer):
    def step():
        forward = tf.cond(
            tf.constant(True),
            lambda: layer(tf.constant(X)),
            lambda: tf.zeros((5, 4)),
        )
        _, looped = tf.while_loop(
            lambda i, _: i < 2,
            lambda i, total: (i + 1, total + sum(layer.losses)),
            [0, 0.0],
        )
        mapped = tf.map_fn(lambda x: sum(layer.losses) * x, tf.ones(2))
        # Now from the outer graph, and from it in an inner one.
        outer = sum(layer.losses)
        inner = tf.cond(
            tf.constant(True), lambda: sum(layer.losses), lambda: 0.0
        )
        return forward, looped, mapped[1], outer, inner

    _, looped, *others = tf.function(step)()
    kl = sum(layer.losses)
    assert_same([looped, *others], [2.0 * kl, kl, kl, kl])


def test_a_tensor_in_place_of_the_variable_has_its_value_in_each_graph(
    variable,
):
    @tf.function
    def step(raw):
        def read():
            with keras.StatelessScope(state_mapping=[(variable, raw)]):
                return shared_softplus.softplus(variable)

        return tf.cond(tf.reduce_all(raw < 0.0), read, read), read()

    assert_same(step(tf.constant(RAW + 1.0)), [scale(RAW + 1.0)] * 2)


def test_traces_share_nothing(layer):
    step = tf.function(lambda x: (layer(x), sum(layer.losses)))
    before = [step(tf.ones((n, 3)))[1] for n in (2, 3)]
    assert before[0] == before[1]
    (kernel,) = layer.variational_weights
    kernel.assign(scale=np.full((3, 4), 0.5))
    after = [step(tf.ones((n, 3)))[1] for n in (2, 3, 4)]
    assert len({float(kl) for kl in after}) == 1
    assert after[0] != before[0]


def test_a_stateless_call_takes_the_values_it_is_given(layer):
    trainable = [tf.constant(value) for value in layer.trainable_variables]
    (kernel,) = layer.variational_weights

    def losses(raw):
        _, _, (kl,) = layer.stateless_call(
            [trainable[0], raw],
            layer.non_trainable_variables,
            X,
            return_losses=True,
        )
        return kl

    values = [tf.fill((3, 4), value) for value in (-3.0, 1.0, -3.0)]
    traced = tf.function(lambda: [losses(value) for value in values])()
    for found, value in zip(traced, values, strict=True):
        kernel.untransformed_scale.assign(value)
        np.testing.assert_allclose(found, layer.losses[0], rtol=1e-6)


class Scaling(keras.layers.Layer):
    """Multiplies by scales, without noise, which is drawn anew there."""

    def build(self, input_shape):
        self.raw = self.add_weight(shape=input_shape[1:])

    def call(self, inputs):
        return inputs * shared_softplus.softplus(self.raw)


def test_a_rematerialized_layer_has_the_same_gradients():
    plain = Scaling()
    with keras.RematScope(mode="full"):
        other = Scaling()
    for layer in (plain, other):
        layer.build((None, 3))
        layer.raw.assign(RAW[:, 1])

    def loss(layer):
        outputs = layer(tf.constant(X))
        scales = shared_softplus.softplus(layer.raw)
        return tf.reduce_sum(tf.square(outputs)) + tf.reduce_sum(scales**3)

    @tf.function
    def step():
        return [gradients(layer, loss) for layer in (plain, other)]

    assert_same(*step())
    assert np.all(np.array(step()[1]) != 0.0)


def test_models_that_share_a_layer_share_its_scales(layer):
    models = []
    for factor in (1.0, 2.0):
        inputs = keras.Input((3,))
        models.append(keras.Model(inputs, layer(factor * inputs)))

    def step():
        for model in models:
            model(tf.constant(X))
        return [sum(model.losses) for model in models]

    assert count(step) == 1
    kl = sum(layer.losses)
    assert_same(tf.function(step)(), [kl, kl])


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_it_has_full_precision_in_layers_that_compute_in_half(dtype):
    layer = build(layers.DenseFlipout, dtype=dtype)

    def step():
        layer(tf.constant(X))
        return layer.variational_weights[0].scale, *layer.losses

    found = tf.function(step)()
    assert all(value.dtype == tf.float32 for value in found)
    for one, other in zip(found, step(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("compiled", "optimizer"),
    [
        ({"steps_per_execution": 3, "jit_compile": False}, {}),
        pytest.param(
            {"jit_compile": False},
            {"gradient_accumulation_steps": 2},
            marks=pytest.mark.slow,
        ),
        pytest.param({"jit_compile": True}, {}, marks=pytest.mark.slow),
    ],
    ids=["executions", "accumulation", "xla"],
)
def test_a_compiled_fit_is_an_eager_one(compiled, optimizer):
    def fitted(**arguments):
        keras.utils.set_random_seed(0)
        model = keras.Sequential(
            [
                keras.Input((3,)),
                layers.DenseFlipout(4, "tanh", sample=False),
                layers.DenseLocalReparameterization(1, sample=False),
            ]
        )
        layers.set_num_train_examples(model, len(X))
        adam = keras.optimizers.Adam(0.1, **optimizer)
        model.compile(adam, "mse", **arguments)
        fit = model.fit(
            X, X[:, :1], batch_size=1, epochs=2, shuffle=False, verbose=0
        )
        return [*fit.history["loss"], *model.get_weights()]

    assert_same(fitted(**compiled), fitted(run_eagerly=True))
