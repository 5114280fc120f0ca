"""The softplus of a variable, computed once a step.

The forward pass and the KL divergence both need the scales, and the softplus of
a dense layer's scales costs as much as a product with its kernel.
"""

import keras
import tensorflow as tf

_KEPT = "_tfp_refine_softplus"


def softplus(variable: keras.Variable) -> tf.Tensor:
    """Computes the softplus of a variable, once for each value it has.

    Call it in a trace. The graph keeps the result until the variable is written
    to. Calls share no more than these numbers: the gradient of each goes to its
    own read of the variable, on whatever tape is recording.
    """
    read = tf.convert_to_tensor(keras.ops.convert_to_tensor(variable))
    if not tf.is_symbolic_tensor(read):
        return tf.math.softplus(read)
    graph = tf.compat.v1.get_default_graph()
    if not hasattr(graph, _KEPT):
        setattr(graph, _KEPT, {})
    kept, key = getattr(graph, _KEPT), _key(read)
    if key not in kept:
        kept[key] = tf.math.softplus(read), tf.math.sigmoid(read)
    value, slope = kept[key]

    @tf.custom_gradient
    def shared_sigmoid(x: tf.Tensor) -> tf.Tensor:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return upstream * slope * (1.0 - shared_sigmoid(x))

        return slope, gradient

    @tf.custom_gradient
    def shared_softplus(x: tf.Tensor) -> tf.Tensor:
        return value, lambda upstream: upstream * shared_sigmoid(x)

    return shared_softplus(read)


def _key(read: tf.Tensor) -> tuple[object, ...]:
    """Returns a key that reads of one value of a variable share.

    Ops that take the variable's handle and are no reads may write: assignments,
    and calls of functions and loops. A graph runs them, and the reads, in the
    order of their creation.
    """
    if read.op.type != "ReadVariableOp":  # a tensor in place of the variable
        return (read.ref(),)
    handle = read.op.inputs[0]
    writes = [op for op in handle.consumers() if op.type != "ReadVariableOp"]
    return handle.ref(), len(writes)
