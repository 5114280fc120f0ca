"""A function that is compiled exactly once."""

import tensorflow as tf
from tensorflow.python.framework import ops

from tfp_refine.functional import tensors

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


class Program:
    """Compiles a function at its first call, for good.

    Unlike a `tf.function` it never traces again: arguments of other shapes or
    dtypes than the first are an error. `varying` says for each argument, a
    tensor or nested, whether its first axis may change. `jit_compile` is that
    of `tf.function`; XLA compiles anew for each size of that axis.
    `trace_count` is 0 or 1.
    """

    def __init__(self, function, varying=(), jit_compile=None):
        self.trace_count = 0
        self._function = function
        self._varying = tuple(varying)
        self._jit_compile = jit_compile
        self._specs = None
        self._compiled = None

    def __call__(self, *arguments):
        arguments = tf.nest.map_structure(tensors.convert, arguments)
        if self._compiled is None:
            varying = self._varying or (False,) * len(arguments)
            self._specs = tuple(
                _specs(argument, varies)
                for argument, varies in zip(arguments, varying, strict=True)
            )
            self._compiled = tf.function(
                self._trace, autograph=False, jit_compile=self._jit_compile
            ).get_concrete_function(*self._specs)
            forget_gradients(self._compiled)
        self._check(arguments)
        return self._compiled(*arguments)

    def _check(self, arguments):
        # TensorFlow itself does not compare shapes here.
        tf.nest.assert_same_structure(self._specs, arguments)
        for spec, argument in zip(
            tf.nest.flatten(self._specs),
            tf.nest.flatten(arguments),
            strict=True,
        ):
            if not spec.is_compatible_with(argument):
                raise ValueError(
                    f"The program was compiled for {spec}. Received: "
                    f"shape={tuple(argument.shape)}, "
                    f"dtype={argument.dtype.name}"
                )

    def _trace(self, *arguments):
        self.trace_count += 1
        return self._function(*arguments)


def under_xla(function):
    """Returns a function that XLA compiles, to be called in a trace.

    Gradients are taken inside: none is of its results.
    """
    traced = tf.function(function, autograph=False, jit_compile=True)

    def call(*arguments):
        compiled = traced.get_concrete_function(*arguments)
        forget_gradients(compiled)
        return compiled(*arguments)

    return call


def forget_gradients(compiled):
    """Lets go of the gradients that a traced function has registered.

    `tf.custom_gradient` registers a function for each of its calls in a graph,
    for good, and that keeps the graph. Only those who differentiate the traced
    function need it; gradients inside have been built. A `tf.function` that it
    calls may be called, and differentiated, elsewhere: it keeps its own.
    """
    graph = compiled.graph.as_graph_def()
    bodies = {
        inner.signature.name: inner.node_def for inner in graph.library.function
    }
    todo = [graph.node]
    while todo:
        for node in todo.pop():
            if "_gradient_op_type" in node.attr:
                name = node.attr["_gradient_op_type"].s.decode()
                ops.gradient_registry._registry.pop(name, None)
            if node.op not in _CALLS:  # loops and branches are of this trace
                todo += [
                    bodies.pop(value.func.name)
                    for value in node.attr.values()
                    if value.func.name in bodies
                ]


def _specs(argument, varies):
    return tf.nest.map_structure(
        lambda leaf: tf.TensorSpec(
            [None, *leaf.shape[1:]] if varies else leaf.shape, leaf.dtype
        ),
        argument,
    )
