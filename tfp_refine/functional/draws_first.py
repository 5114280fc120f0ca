"""Vectorization of a member's computation, random draws apart."""

import tensorflow as tf

from tfp_refine.functional import program

_ABSTRACT = (tf.variant, tf.resource)


def vectorize(function, key, stacked, shared, index):
    """Maps a function of one member over several, each operation at once.

    `tf.vectorized_map` would do each random operation in a loop of its own, and
    all that follows on its results with it. Here the operations that depend on
    the key alone come first, member by member in one loop; then the rest is
    vectorized. Call it in a trace.

    Args:
        function: Function `(key, stacked, shared, index)` of one member.
        key: Keys of the members' random streams, `[M]`.
        stacked: Values `[M, ...]` (nested).
        shared: Values that members share (nested).
        index: Scalar that chooses the draws along with the key.

    Returns:
        results: Results of the function (nested), `[M, ...]`.
    """
    arguments = (key, stacked, shared, index)
    structure = None

    def flat(*leaves):
        nonlocal structure
        results = function(*tf.nest.pack_sequence_as(arguments, leaves))
        structure = tf.nest.map_structure(lambda _: None, results)
        return tf.nest.flatten(results)

    specs = (
        *tf.nest.map_structure(
            lambda v: tf.TensorSpec(v.shape[1:], v.dtype), (key, stacked)
        ),
        *tf.nest.map_structure(
            lambda v: tf.TensorSpec(v.shape, v.dtype), (shared, index)
        ),
    )
    traced = tf.function(flat, autograph=False).get_concrete_function(
        *tf.nest.flatten(specs)
    )
    program.forget_gradients(traced)  # which are inside
    graph = traced.graph.as_graph_def()
    # Functions within the graph, as control flow has, cannot be vectorized once
    # they are imported.
    if traced.captured_inputs or graph.library.function:
        return tf.vectorized_map(
            lambda one: function(*one, shared, index),
            (key, stacked),
            warn=False,
        )
    inputs = traced.inputs
    draws, decided = _draws(traced, inputs[0], inputs[-1])
    # Without operations that the key does not decide, such as assertions: these
    # are run wherever they are.
    to_draw = tf.compat.v1.GraphDef()
    to_draw.CopyFrom(graph)
    del to_draw.node[:]
    to_draw.node.extend(node for node in graph.node if node.name in decided)

    def compute(graph, feeds, values, fetches):
        names = [tensor.name for tensor in feeds]
        values = dict(zip(names, map(tf.identity, values), strict=True))
        names = [v.name for v in fetches if v.name not in values]
        values |= zip(
            names,
            tf.graph_util.import_graph_def(
                *_between(graph, values, names), names
            ),
            strict=True,
        )
        return [values[tensor.name] for tensor in fetches]

    drawn = ()
    if draws:
        drawn = tf.map_fn(
            lambda one: tuple(
                compute(to_draw, (inputs[0], inputs[-1]), (one, index), draws)
            ),
            key,
            fn_output_signature=tuple(
                tf.TensorSpec(t.shape, t.dtype) for t in draws
            ),
        )
    results = tf.vectorized_map(
        lambda one: tuple(
            compute(
                graph,
                [*inputs, *draws],
                [*one[0], *tf.nest.flatten((shared, index)), *one[1]],
                traced.outputs,
            )
        ),
        (tuple(tf.nest.flatten((key, stacked))), drawn),
        warn=False,
    )
    return tf.nest.pack_sequence_as(structure, results)


def _between(graph, feeds, fetches):
    """Returns the part of a graph from some tensors to others, and its feeds.

    XLA would compile the other nodes, too, and fail on placeholders.
    """
    nodes = {node.name: node for node in graph.node}
    # Tensors that are fed are there: no operation has to wait for them.
    given = {f"^{name.removesuffix(':0')}" for name in feeds}
    part = tf.compat.v1.GraphDef(versions=graph.versions)
    used, todo = {}, list(fetches)
    while todo:
        name, _, index = todo.pop().lstrip("^").partition(":")
        tensor = f"{name}:{index or 0}"
        if tensor in feeds:
            used[tensor] = feeds[tensor]
        elif name in nodes:
            node = part.node.add()
            node.CopyFrom(nodes.pop(name))
            node.attr.pop("_class", None)  # a place beside one that may be gone
            inputs = [value for value in node.input if value not in given]
            node.ClearField("input")
            node.input.extend(inputs)
            todo += inputs
    return part, used


def _draws(traced, key, index):
    """Finds the tensors that a key decides, where others begin to matter.

    Also returns the names of all operations that nothing else decides.
    """
    decided, has_key = {}, {}
    graph, results = traced.graph, {id(v) for v in traced.outputs}
    for operation in graph.get_operations():  # in topological order
        parents = [
            *(tensor.op for tensor in operation.inputs),
            *operation.control_inputs,
        ]
        if operation.type == "Placeholder":
            decided[operation] = operation in (key.op, index.op)
        else:
            decided[operation] = all(decided[parent] for parent in parents)
        has_key[operation] = operation is key.op or any(
            has_key[parent] for parent in parents
        )
    draws = [
        tensor
        for operation in graph.get_operations()
        if decided[operation] and has_key[operation] and operation is not key.op
        for tensor in operation.outputs
        if id(tensor) in results
        or any(not decided[consumer] for consumer in tensor.consumers())
    ]
    if any(tensor.dtype in _ABSTRACT for tensor in draws):
        draws = []
    return draws, {op.name for op, value in decided.items() if value}
