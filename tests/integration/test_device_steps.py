"""Nothing in a compiled step waits for Python, or for the processor.

There need be no GPU: TensorFlow says which operations have a kernel for one.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

import tfp_refine as tfr
from tests.support import graph_ops

NUM, BATCH = 12, 4
# Has a kernel for processors alone; it is called once an epoch.
ONCE_AN_EPOCH = {"StatelessShuffle"}
# Run Python, or write to a terminal.
OF_THE_HOST = {
    "EagerPyFunc",
    "PyFunc",
    "PyFuncStateless",
    "Print",
    "PrintV2",
    "StringFormat",
}


def _devices(operation):
    found = kernels.get_registered_kernels_for_op(operation).kernel
    return {kernel.device_type for kernel in found}


def _is_on_the_host(operation):
    """Returns whether its outputs lie in the memory of the processor."""
    outputs = {argument.name for argument in operation.op_def.output_arg}
    found = kernels.get_registered_kernels_for_op(operation.type).kernel
    of_the_gpu = [
        kernel
        for kernel in found
        if kernel.device_type in {"GPU", "DEFAULT"}
        and all(
            operation.get_attr(constraint.name)
            in constraint.allowed_values.list.type
            for constraint in kernel.constraint
        )
    ]
    return bool(found) and all(
        outputs & set(kernel.host_memory_arg) for kernel in of_the_gpu
    )


def assert_large_ones_are_not_on_the_host(operations):
    """Checks where tensors lie, and returns how many were checked.

    Small ones, of shapes, seeds and sizes, are the processor's.
    """
    large = [
        operation
        for operation in operations
        if any((o.shape.num_elements() or 0) > 32 for o in operation.outputs)
    ]
    assert not [op.name for op in large if _is_on_the_host(op)]
    return len(large)


def assert_runs_on_a_gpu(types):
    """Checks types of operations, those without any kernel being structure."""
    assert len(types) > 10
    assert not types & OF_THE_HOST
    if "GPU" not in _devices("MatMul"):
        pytest.skip("This TensorFlow was built without GPUs.")
    of_the_cpu = {
        name
        for name in types
        if _devices(name) and not _devices(name) & {"GPU", "DEFAULT"}
    }
    assert of_the_cpu <= ONCE_AN_EPOCH


def assert_stay_on_the_device(programs):
    """Checks compiled programs, and returns the types of their operations."""
    types = set().union(*map(graph_ops.of, programs))
    assert_runs_on_a_gpu(types)
    for program in programs:
        assert_large_ones_are_not_on_the_host(graph_ops.operations(program))
    return types


@pytest.fixture
def data(rng):
    x = rng.standard_normal((NUM, 8, 8, 1), dtype=np.float32)
    return x, np.arange(NUM) % 3


def _compiled(model):
    model.compile(
        "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return model


def _network(conv="Conv2DFlipout", dense="DenseFlipout"):
    return _compiled(
        tfr.models.LeNet5(
            (8, 8, 1),
            3,
            widths=(2, 3, 4),
            conv_layer=getattr(tfr.layers, conv),
            dense_layer=getattr(tfr.layers, dense),
            num_train_examples=NUM,
        )
    )


@pytest.mark.parametrize(
    "mapping", ["map", pytest.param("vmap", marks=pytest.mark.slow)]
)
def test_refinement_stays_on_the_device(mapping, data):
    with graph_ops.compiled() as programs:
        tfr.refine(
            _network(), *data, num_members=2, variance_ratios=(0.5,), steps=1,
            batch_size=BATCH, mapping=mapping, num_eval_samples=1, verbose=0,
        )  # fmt: skip
    types = assert_stay_on_the_device(programs)
    assert "While" in types or "StatelessWhile" in types


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        lambda model, x, y: tfr.ensembles.deep_ensemble(
            model, x, y, num_members=2, steps=1, batch_size=BATCH, verbose=0
        ),
        lambda model, x, y: tfr.ensembles.swag(
            model, x, y, num_snapshots=2, rank=2, steps_per_snapshot=1,
            batch_size=BATCH, verbose=0,
        ),
    ],
    ids=["deep_ensemble", "swag"],
)  # fmt: skip
def test_ensembles_stay_on_the_device(method, data):
    model = _compiled(tfr.models.to_deterministic(_network()))
    with graph_ops.compiled() as programs:
        method(model, *data)
    assert_stay_on_the_device(programs)


@pytest.mark.slow
def test_predictions_and_bounds_stay_on_the_device(data):
    model = _network()
    with graph_ops.compiled() as programs:
        tfr.predict(model, data[0], 2)
        tfr.elbo(model, *data, num_samples=1)
    assert_stay_on_the_device(programs)


@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param("Reparameterization", marks=pytest.mark.slow),
        pytest.param("LocalReparameterization", marks=pytest.mark.slow),
        "Flipout",
    ],
)
def test_training_steps_of_layers_stay_on_the_device(estimator, data):
    model = _network(f"Conv2D{estimator}", f"Dense{estimator}")
    step = tf.function(model.train_step, autograph=False)
    x, y = map(tf.constant, data)
    model.optimizer.build(model.trainable_variables)
    traced = step.get_concrete_function((x, y))
    assert_runs_on_a_gpu(graph_ops.of(traced))
    operations = traced.graph.get_operations()
    assert assert_large_ones_are_not_on_the_host(operations) > 100


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.py_function(lambda v: v, [x], tf.float32),
        lambda x: tf.numpy_function(lambda v: v, [x], tf.float32),
    ],
)
def test_python_in_an_inner_function_is_found(function):
    @tf.function
    def loop(x):
        return tf.map_fn(function, x, fn_output_signature=tf.float32)

    types = graph_ops.of(loop.get_concrete_function(tf.ones([3])))
    assert types & OF_THE_HOST
