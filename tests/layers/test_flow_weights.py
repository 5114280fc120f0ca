import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import statistics
from tfp_refine import layers
from tfp_refine.layers import flow_weights

SIZE = 4


def make(size=SIZE, length=3, units=5, masks="random", seed=2):
    layer = keras.layers.Layer(dtype="float64")
    flow = flow_weights.build(
        layer.add_weight,
        "flow",
        size,
        length,
        units,
        masks,
        flow_weights.Initializers(seed),
    )
    return layer, flow


def spread(flow):
    rng = np.random.default_rng(3)
    for variable in flow.weights:
        variable.assign(rng.normal(size=variable.shape))


def seeds(seed=5):
    return keras.random.SeedGenerator(seed)


@pytest.mark.slow
@pytest.mark.parametrize("masks", ["random", "alternating"])
@pytest.mark.parametrize("size", [1, 2, SIZE])
def test_the_log_determinant_is_that_of_the_jacobian(size, masks):
    _, flow = make(size, masks=masks)
    spread(flow)
    drawn = flow.draw_masks((6,), "float64", seeds())
    z = tf.constant(np.random.default_rng(0).normal(size=(6, size)))
    with tf.GradientTape() as tape:
        tape.watch(z)
        moved, log_det = flow(z, drawn)
    jacobian = np.asarray(tape.batch_jacobian(moved, z))
    assert log_det.shape == (6,)
    assert np.std(log_det) > 1e-3
    np.testing.assert_allclose(
        log_det, np.linalg.slogdet(jacobian)[1], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("batch_shape", [(), (7,), (2, 3)])
@pytest.mark.parametrize("masks", ["random", "alternating"])
@pytest.mark.parametrize("size", [1, SIZE])
def test_points_come_in_any_batch(size, masks, batch_shape):
    _, flow = make(size, masks=masks)
    drawn = flow.draw_masks(batch_shape, "float64", seeds())
    z, log_det = flow(tf.ones((*batch_shape, size), "float64"), drawn)
    assert z.shape == (*batch_shape, size)
    assert log_det.shape == batch_shape
    assert z.dtype == log_det.dtype == "float64"


def test_each_point_has_masks_of_its_own_at_each_step_and_call():
    _, flow = make()
    num = 8000
    seed = seeds()
    masks = np.asarray(flow.draw_masks((num,), "float64", seed))
    assert masks.shape == (3, num, SIZE)
    assert set(np.unique(masks)) == {0.0, 1.0}
    signs = np.reshape(np.moveaxis(2 * masks - 1, 1, 0), (num, -1))
    products = signs[:, :, None] * signs[:, None, :]
    statistics.assert_mean(signs, 0.0, 1.0, resolves=0.15)
    statistics.assert_mean(products, np.eye(signs.shape[1]), 1.0, resolves=0.15)
    # Points next to each other, too.
    statistics.assert_mean(signs[::2] * signs[1::2], 0.0, 1.0, resolves=0.2)
    again = np.asarray(flow.draw_masks((num,), "float64", seed))
    assert 0.4 < np.mean(again == masks) < 0.6


def test_masks_that_alternate_leave_no_coordinate_in_its_place():
    _, flow = make(masks="alternating", length=2)
    masks = np.asarray(flow.draw_masks((7,), "float32", seeds()))
    assert masks.dtype == "float32"
    np.testing.assert_array_equal(
        np.broadcast_to(masks, (2, 7, SIZE))[:, 3], [[0, 1, 0, 1], [1, 0, 1, 0]]
    )
    np.testing.assert_array_equal(np.sum(masks, axis=0), np.ones((1, SIZE)))


def test_each_step_has_weights_of_its_own():
    _, flow = make(masks="alternating")
    masks = flow.draw_masks((), "float64", seeds())
    z = tf.ones([SIZE], "float64")
    outputs = [np.asarray(flow(z, masks)[0])]
    for step in range(3):
        for variable in flow.weights:
            value = np.array(variable)
            changed = np.array(value)
            changed[step] += 0.5
            variable.assign(changed)
            outputs.append(np.asarray(flow(z, masks)[0]))
            variable.assign(value)
    assert len(np.unique(np.round(outputs, 12), axis=0)) == len(outputs)


def test_gates_are_almost_open_at_the_start():
    _, flow = make(size=50, units=40, length=1)
    masks = tf.zeros([1, 50], "float64")
    outputs = [
        np.asarray(flow(tf.fill([50], tf.constant(v, tf.float64)), masks)[0])
        for v in (1.0, 2.0)
    ]
    np.testing.assert_allclose(outputs[0], 1.0, atol=0.1)
    np.testing.assert_allclose(outputs[1] - outputs[0], 0.88, atol=0.02)


def test_initial_weights_have_the_spread_that_keeps_units_of_order_one():
    _, flow = make(size=300, units=100, length=2)
    hidden, bias, output, output_bias = (np.asarray(w) for w in flow.weights)
    np.testing.assert_allclose(np.std(hidden), 300**-0.5, rtol=0.05)
    np.testing.assert_allclose(np.std(output), 0.1 * 100**-0.5, rtol=0.05)
    np.testing.assert_array_equal(bias, 0.0)
    np.testing.assert_array_equal(output_bias[:, 0], 1.0)
    np.testing.assert_array_equal(output_bias[:, 1], 2.0)
    assert hidden.shape == (2, 300, 100)


def test_weights_are_those_of_the_layer_and_have_names():
    for size, names in (
        (
            SIZE,
            ["hidden_kernel", "hidden_bias", "output_kernel", "output_bias"],
        ),
        (1, ["u", "w", "b"]),
    ):
        layer, flow = make(size)
        assert [w.name for w in flow.weights] == [f"flow_{n}" for n in names]
        assert [id(w) for w in layer.weights] == [id(w) for w in flow.weights]


def test_a_seed_gives_each_initializer_other_numbers():
    def draws(seed):
        initializers = flow_weights.Initializers(seed)
        return [
            np.asarray(initializers.normal(2.0, mean=1.0)((1000,)))
            for _ in range(3)
        ]

    first = draws(4)
    np.testing.assert_array_equal(draws(4), first)
    for others in (draws(5), draws(None), first[1:] + first[:1]):
        for one, other in zip(first, others, strict=True):
            assert np.all(one != other)
    statistics.assert_mean(np.ravel(first), 1.0, 2.0, resolves=0.5)
    np.testing.assert_allclose(np.std(first), 2.0, rtol=0.1)
    for seed in (-1, 2**31, 2**40):
        assert np.all(np.isfinite(draws(seed)))


@pytest.mark.parametrize("size", [1, 3])
def test_a_layer_uses_its_lengths_units_and_names(size):
    layer = layers.DenseMNF(
        2,
        flow_length=3,
        flow_units=4,
        auxiliary_flow_length=1,
        auxiliary_flow_units=5,
    )
    layer.build((None, size))
    shapes = {w.name: tuple(w.shape) for w in layer.weights}
    if size == 1:
        assert shapes["kernel_flow_u"] == (3, 1)
        assert shapes["kernel_auxiliary_flow_u"] == (1, 1)
        return
    assert shapes["kernel_flow_hidden_kernel"] == (3, 3, 4)
    assert shapes["kernel_auxiliary_flow_output_kernel"] == (1, 2, 5, 3)
    biases = [w for w in layer.weights if w.name.endswith("output_bias")]
    assert len(biases) == 2
    for bias in biases:
        np.testing.assert_array_equal(np.asarray(bias)[:, 0], 1.0)
