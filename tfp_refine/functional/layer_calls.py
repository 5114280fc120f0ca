"""Observation of the layers of a model while it is called."""

import contextlib

import keras
import tensorflow as tf


@contextlib.contextmanager
def observe(layers, observer):
    """Calls `observer(layer, inputs)` after each call of one of the layers.

    `inputs` is the first argument of the call.
    """

    def observed(layer, call):
        def call_and_show(*args, **kwargs):
            outputs = call(*args, **kwargs)
            observer(layer, args[0] if args else next(iter(kwargs.values())))
            return outputs

        return call_and_show

    try:
        for layer in layers:
            # Not by `setattr`, which Keras tracks.
            layer.__dict__["call"] = observed(layer, layer.call)
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("call", None)


def layers_with_weights(model):
    """Returns the layers of a model that have weights of their own."""
    return [
        layer
        for layer in model._flatten_layers(include_self=True)
        if _own_weights(layer)
    ]


def last_with_weights(model, call):
    """Finds which layer with weights is called last by `call()`.

    Returns the layer, and the shape of its inputs, or `None` if these are more
    than one tensor.
    """
    called = []
    with observe(
        layers_with_weights(model),
        lambda layer, inputs: called.append(
            (layer, getattr(inputs, "shape", None))
        ),
    ):
        call()
    if not called:
        raise ValueError(
            f"The model '{model.name}' was not seen to call a layer with "
            "weights."
        )
    return called[-1]


def check_no_functions(model):
    """Raises a `ValueError` if a method of a layer is a `tf.function`.

    Its inner computations are hidden, and tracing it with weights as arguments
    would leave it unusable.
    """
    for layer in model._flatten_layers(include_self=True):
        for kind in type(layer).__mro__:
            for name, value in vars(kind).items():
                if isinstance(value, tf.types.experimental.GenericFunction):
                    raise ValueError(
                        f"The method `{name}` of '{layer.name}' must not be a "
                        "tf.function: the inputs of the last layer cannot be "
                        "seen."
                    )


def description(layer):
    """Describes a layer, whatever its name and whether it is frozen.

    Returns its class, and the simple values of its configuration, as text.
    """
    try:
        config = layer.get_config()
    except NotImplementedError:
        config = {}
    simple = {
        key: value
        for key, value in sorted(config.items())
        if key not in ("name", "trainable")
        and isinstance(value, str | int | float | bool)
    }
    return f"{type(layer).__name__}{simple}"


def _own_weights(layer):
    below = {
        id(weight)
        for inner in layer._flatten_layers(include_self=False)
        for weight in inner.weights
    }
    return [w for w in layer.weights if id(w) not in below]


def find_layer(model, layer):
    """Finds a layer of a model, given the layer or its name."""
    inside = list(model._flatten_layers(include_self=False))
    found = [
        one
        for one in inside
        if one is layer or (isinstance(layer, str) and one.name == layer)
    ]
    if len(found) != 1:
        names = ", ".join(
            repr(one.name)
            for one in inside
            if isinstance(one, keras.layers.Dense)
        )
        raise ValueError(
            f"`layer` must be a layer of the model '{model.name}', or its "
            f"name. Received: {layer!r}, of which it has {len(found)}. Its "
            f"dense layers: {names}"
        )
    return found[0]
