"""Types of the operations that compiled programs consist of."""

import contextlib
from unittest import mock

from tfp_refine import functional


def of(concrete_function):
    """Returns the types of all operations, those of inner functions too."""
    graph = concrete_function.graph.as_graph_def()
    nodes = [*graph.node]
    for function in graph.library.function:
        nodes += function.node_def
    return {node.op for node in nodes}


@contextlib.contextmanager
def recorded():
    """Yields a set that grows by the types of each `Program` compiled."""
    types = set()
    call = functional.Program.__call__

    def recording(program, *arguments):
        result = call(program, *arguments)
        types.update(of(program._compiled))
        return result

    with mock.patch.object(functional.Program, "__call__", recording):
        yield types
