"""Layers inside a layer: where they are, and how to replace them."""

from typing import Any

import keras

# Where Keras itself keeps layers.
_OF_KERAS = (
    "_functional",
    "_layers",
    "_nodes_by_depth",
    "_operations",
    "_operations_by_depth",
)


def is_graph(layer):
    """Checks whether it is a Sequential or functional model, or of a subclass.

    These have a graph of layers, perhaps beside attributes.
    """
    return isinstance(layer, keras.Sequential) or (
        isinstance(layer, keras.Model) and hasattr(layer, "operations")
    )


def inside(layer):
    """Returns the layers directly inside a layer, each once.

    Cells of recurrent layers are no layers of their own here: they are called
    at each step, where their weights must be those of the step before.
    """
    if isinstance(layer, keras.layers.RNN):
        return []
    return [
        part
        for part in layer._flatten_layers(include_self=False, recursive=False)
        if not isinstance(part, keras.layers.InputLayer)
    ]


def chains(model):
    """Finds where each layer is in a model.

    Returns a dict from layers to lists of chains: tuples of the layers on the
    way from the model to the layer, with both.
    """
    found: dict[Any, list] = {}

    def visit(chain):
        for part in inside(chain[-1]):
            found.setdefault(part, []).append((*chain, part))
            visit((*chain, part))

    visit((model,))
    return found


def name(chain):
    """Returns the path of a layer in its model: `"block/dense"`."""
    return "/".join(layer.name for layer in chain[1:])


def find(layer):
    """Finds the layers directly inside a layer, by their address.

    An address is a tuple: `("layers", index)` of a layer of a graph, otherwise
    an attribute, and indices and keys of lists, tuples and dicts in it. A layer
    that two attributes hold has two addresses. Names would not do, as Keras
    numbers those that it makes up.

    Raises:
        ValueError: If a layer is at no such place, as in a set.
    """
    parts = inside(layer)
    found: dict[tuple, Any] = {}
    if is_graph(layer):
        for index, part in enumerate(_of_graph(layer)):
            found[("layers", index)] = part
    tracked = {id(part) for part in parts}

    def visit(value, address):
        if isinstance(value, keras.layers.Layer):
            if id(value) in tracked:
                found[address] = value
        elif isinstance(value, dict):
            for key in value:
                visit(value[key], (*address, key))
        elif isinstance(value, list | tuple):
            for key, entry in enumerate(value):
                visit(entry, (*address, key))

    for attribute, value in vars(layer).items():
        # Checkpoints of TensorFlow have theirs behind `_self_`.
        if attribute not in _OF_KERAS and not attribute.startswith("_self_"):
            visit(value, (attribute,))
    lost = tracked.difference(map(id, found.values()))
    if lost:
        names = (part.name for part in parts if id(part) in lost)
        raise ValueError(
            f"no attribute, list, tuple or dict of '{layer.name}' holds "
            f"{', '.join(names)}"
        )
    return found


def at(layer, address):
    """Returns the layer at an address, which may lead through other layers."""
    value = layer
    for key in address:
        if not isinstance(value, keras.layers.Layer):
            value = value[key]
        elif is_graph(value) and key == "layers":
            value = _of_graph(value)
        else:
            value = getattr(value, key)
    return value


def _of_graph(model):
    return [
        layer
        for layer in model.layers
        if not isinstance(layer, keras.layers.InputLayer)
    ]


def put(layer, address, new):
    """Replaces the layer at an address, not one of a graph.

    Also in a layer that is built, whose layers Keras keeps from being added to.
    """
    old, tracker = at(layer, address), layer._tracker
    if tracker.is_in_store("layers", old):
        if tracker.is_in_store("layers", new):
            tracker.untrack(old)
        else:
            tracker.replace_tracked_value("layers", old, new)
    attribute, *keys = address
    if not keys:
        setattr(layer, attribute, new)
        return
    value = getattr(layer, attribute)
    changed = _with(value, keys, new)
    if changed is not value:
        setattr(layer, attribute, changed)


def _with(value, keys, new):
    """Puts a layer in a list or dict, or a copy of a tuple."""
    key, *rest = keys
    entry = _with(value[key], rest, new) if rest else new
    if not isinstance(value, tuple):
        value[key] = entry
        return value
    entries = (*value[:key], entry, *value[key + 1 :])
    kind = value.__class__  # TensorFlow has a type of its own around it
    return kind(*entries) if hasattr(value, "_fields") else kind(entries)
