"""Copies of Keras models, layer by layer."""

import contextlib
import textwrap

import keras

from tfp_refine import _validation

# Layers whose weights are point estimates, as usual.
NORMALIZATIONS = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.Normalization,
    keras.layers.UnitNormalization,
)


def clone(model, replace, **options):
    """Copies a model as `keras.models.clone_model` does, uncompiled.

    `replace` maps a layer to its replacement, or to `None` for a copy with its
    weights. Returns the copy and a dict from layers to their replacements, in
    order. Warns of layers that cannot be copied, which both models then share,
    and of models that lose their class. Raises a `ValueError` if one of these
    computes its outputs in a `call` of its own.
    """
    themselves = set()
    while True:
        converted, copies, plain = _attempt(model, replace, themselves, options)
        failed = [
            layer
            for layer in plain
            if copies[layer] is not layer
            and not _try_to_take_over(layer, copies[layer])
        ]
        if not failed:
            _check_classes(model, converted)
            return converted, copies
        themselves.update(failed)


def _check_classes(model, converted):
    """Notices models that are copied as plain functional or Sequential ones."""
    kinds = {one.name: type(one) for one in _models(converted)}
    changed = [
        one for one in _models(model) if kinds.get(one.name) is not type(one)
    ]
    for one in changed:
        (owner, *_) = (k for k in type(one).__mro__ if "call" in vars(k))
        if owner.__module__.partition(".")[0] != "keras":
            raise ValueError(
                f"The model '{one.name}', a {type(one).__name__}, cannot be "
                "copied: its `call` is its own, not the graph of its inputs "
                "and outputs."
            )
    if changed:
        names = (f"'{one.name}', a {type(one).__name__}" for one in changed)
        _validation.warn(
            "Copies of these models are plain functional or Sequential ones, "
            "without methods of their class such as `train_step`: "
            f"{'; '.join(names)}. A subclass keeps its class if its "
            "constructor takes `*args` and `**kwargs`, or the arguments of "
            "keras.Model.",
        )


def _models(model):
    """Returns a model and the models inside that are not shared layers."""
    return [
        one for one in model._flatten_layers() if isinstance(one, keras.Model)
    ]


def _attempt(model, replace, themselves, options):
    """Copies a model, but for some layers, which are taken themselves."""
    copies, plain = {}, []

    def copy(layer):
        if not isinstance(layer, keras.layers.Layer):
            return layer  # an operation between layers
        new = layer
        if layer not in themselves:
            new = replace(layer)
            if new is None:
                plain.append(layer)
                new = copy_layer(layer)
        copies[layer] = new
        return new

    with _uncompiled(model):
        converted = keras.models.clone_model(
            model, clone_function=copy, **options
        )
    for layer in set(copies).difference(plain):
        _build(layer, copies[layer])
    return converted, copies, plain


def _build(layer, copy):
    """Builds a copy that is behind one of outputs of unknown shape."""
    if layer.built and not copy.built:
        copy.build_from_config(layer.get_build_config())


def _try_to_take_over(layer, copy):
    try:
        _build(layer, copy)
        take_over(layer, copy)
    except Exception as error:  # whatever happens in a user's layer
        _warn(layer, error)
        return False
    return True


def take_over(layer, copy):
    """Gives a copy the weights of a layer, and freezes what is frozen."""
    copy.set_weights(layer.get_weights())
    parts, copied = layer._flatten_layers(), copy._flatten_layers()
    for one, other in zip(parts, copied, strict=False):
        if one.trainable != other.trainable:
            other.trainable = one.trainable


@contextlib.contextmanager
def _uncompiled(model):
    """Hides losses and optimizers, which need not be of use to the copy."""
    compiled = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.Model) and layer.compiled
    ]
    for layer in compiled:
        layer.compiled = False
    try:
        yield
    finally:
        for layer in compiled:
            layer.compiled = True


def copy_layer(layer):
    """Copies a layer, without its weights.

    Returns the layer itself if it has nothing to train and is a Python
    function, which cannot be copied, or preprocessing, whose state is not all
    in its weights. The same, with a warning, if its configuration cannot be
    read.
    """
    has_more = any(hasattr(one, "adapt") for one in layer._flatten_layers())
    if isinstance(layer, keras.layers.Lambda) or (
        has_more and not layer.trainable_weights
    ):
        return layer
    try:
        if has_more:
            raise ValueError("it has preprocessing inside")
        new = _from_config(layer)
        if {id(v) for v in new.variables} & {id(v) for v in layer.variables}:
            raise ValueError("the other one would have its variables")
    except Exception as error:  # whatever happens in a user's layer
        _warn(layer, error)
        return layer
    return new


def _from_config(layer):
    config = layer.get_config()
    try:
        # Which the configuration that Keras makes up does not have.
        return type(layer).from_config({"name": layer.name, **config})
    except TypeError:
        return type(layer).from_config(config)


def _warn(layer, error):
    _validation.warn(
        f"Layer '{layer.name}', a {type(layer).__name__}, is kept itself, not "
        "copied, as its `get_config` and `from_config` do not make another "
        "one: both models have it, and training one of them changes it in "
        f"both. {type(error).__name__}: "
        f"{textwrap.shorten(str(error), 300, placeholder=' ...')}",
    )
