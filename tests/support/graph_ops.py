"""The operations that compiled programs consist of."""

import contextlib
from unittest import mock

from tensorflow.python.framework import function_def_to_graph

from tfp_refine import functional


def of(concrete_function):
    """Returns the types of all operations, those of inner functions too."""
    graph = concrete_function.graph.as_graph_def()
    nodes = [*graph.node]
    for function in graph.library.function:
        nodes += function.node_def
    return {node.op for node in nodes}


def operations(concrete_function):
    """Lists all operations, those of inner functions too."""
    graph = concrete_function.graph
    found = [*graph.get_operations()]
    inner = graph.as_graph_def(add_shapes=True).library.function
    with graph.as_default():
        for function in inner:
            body = function_def_to_graph.function_def_to_graph(function)
            found += body.get_operations()
    return found


@contextlib.contextmanager
def compiled():
    """Yields a list that grows by what each `Program` is compiled to."""
    found = []
    call = functional.Program.__call__

    def recording(program, *arguments):
        result = call(program, *arguments)
        if program._compiled not in found:
            found.append(program._compiled)
        return result

    with mock.patch.object(functional.Program, "__call__", recording):
        yield found
