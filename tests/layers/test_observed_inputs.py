import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import layers


class Record:
    """An observer that keeps its inputs."""

    def __init__(self):
        self.seen = []

    def __call__(self, layer, inputs):
        self.seen.append((layer, np.array(inputs)))

    @property
    def layers(self):
        return [layer for layer, _ in self.seen]


@pytest.fixture
def chain():
    """A model of two variational layers, and the layers."""
    first, second = layers.DenseFlipout(3, "relu"), layers.DenseFlipout(2)
    inputs = keras.Input((4,))
    return keras.Model(inputs, second(first(inputs))), first, second


X = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")


def test_each_call_is_seen_in_order_with_its_inputs(chain):
    model, first, second = chain
    record = Record()
    with layers.observe_inputs(record):
        outputs = model(X)
        model(2.0 * X)
    assert record.layers == [first, second, first, second]
    inputs = [inputs for _, inputs in record.seen]
    np.testing.assert_array_equal(inputs[0], X)
    np.testing.assert_array_equal(inputs[2], 2.0 * X)
    assert inputs[1].shape == (5, 3)
    assert np.all(inputs[1] >= 0.0)
    assert outputs.shape == (5, 2)


def test_the_inputs_seen_are_those_that_the_outputs_are_computed_from(chain):
    model, _, second = chain
    record = Record()
    with layers.mean_weights(), layers.observe_inputs(record):
        outputs = model(X)
    np.testing.assert_allclose(
        record.seen[1][1] @ np.asarray(second.kernel), outputs, rtol=1e-5
    )


@pytest.mark.parametrize(
    "make_layer",
    [
        layers.DenseReparameterization,
        layers.DenseLocalReparameterization,
        layers.DenseMNF,
    ],
)
@pytest.mark.parametrize("sample", [True, False])
def test_layers_of_each_estimator_are_seen(make_layer, sample):
    layer, record = make_layer(2), Record()
    layer(X)
    with layers.observe_inputs(record):
        layer(X, sample=sample)
    ((seen, inputs),) = record.seen
    assert seen is layer
    np.testing.assert_array_equal(inputs, X)


def test_inputs_are_seen_in_the_dtype_that_is_computed_in():
    layer, record = layers.DenseFlipout(2, dtype="mixed_bfloat16"), Record()
    layer(X)

    def observer(layer, inputs):
        record.seen.append((layer, inputs.dtype))

    with layers.observe_inputs(observer):
        layer(X)
    assert record.seen == [(layer, tf.bfloat16)]


def test_the_inner_of_two_scopes_acts_and_the_outer_one_after_it(chain):
    model, first, second = chain
    outer, inner = Record(), Record()
    with layers.observe_inputs(outer):
        with layers.observe_inputs(inner):
            model(X)
        assert outer.seen == []
        first(X)
        with layers.observe_inputs(None):
            model(X)
    model(X)
    assert inner.layers == [first, second]
    assert outer.layers == [first]


def test_exceptions_leave_the_scope_as_it_was(chain):
    model, first, second = chain
    outer = Record()

    def fail(layer, inputs):
        raise KeyboardInterrupt

    with layers.observe_inputs(outer):
        with pytest.raises(KeyboardInterrupt), layers.observe_inputs(fail):
            model(X)
        assert outer.seen == []
        model(X)
    assert outer.layers == [first, second]
    model(X)
    assert len(outer.seen) == 2


def test_the_layer_is_not_computed_before_its_observer():
    layer = layers.DenseFlipout(2, seed=1)
    layer(X)
    before = np.array(layer.seed_generator.state)

    def fail(layer, inputs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), layers.observe_inputs(fail):
        layer(X)
    np.testing.assert_array_equal(layer.seed_generator.state, before)


def test_other_threads_are_not_observed(chain):
    model, _, _ = chain
    record = Record()
    with layers.observe_inputs(record):
        thread = threading.Thread(target=model, args=(X,))
        thread.start()
        thread.join()
    assert record.seen == []


@pytest.mark.parametrize(
    ("make_layer", "inputs"),
    [
        (
            lambda: layers.EmbeddingReparameterization(5, 2),
            np.array([[0, 4]]),
        ),
        (lambda: layers.LSTMReparameterization(2), X[np.newaxis]),
        (lambda: layers.GRUReparameterization(2), X[np.newaxis]),
    ],
)
@pytest.mark.parametrize("sample", [True, False])
def test_embeddings_and_recurrent_layers_are_seen(make_layer, inputs, sample):
    layer, record = make_layer(), Record()
    with layers.observe_inputs(record):
        layer(inputs, sample=sample)
    ((seen, value),) = record.seen
    assert seen is layer
    np.testing.assert_array_equal(value, inputs)
