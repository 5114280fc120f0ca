"""Copies of Keras models, layer by layer."""

import contextlib
import textwrap
import warnings

import keras


def clone(model, clone_function, **options):
    """Copies a model as `keras.models.clone_model` does, uncompiled.

    Args:
        model: Functional or Sequential `keras.Model`.
        clone_function: Function of a layer, or of an operation that stands
            between layers, to what takes its place.
        **options: Others of `keras.models.clone_model`.

    Returns:
        model: The copy, whose loss and optimizer are not those of the model.
    """
    with _uncompiled(model):
        return keras.models.clone_model(
            model, clone_function=clone_function, **options
        )


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

    What has nothing to train is taken itself: operations between layers,
    functions of Python, which cannot be copied, and preprocessing, whose state
    is not all in its weights. So are layers that do not say how they were made.

    Args:
        layer: Layer or operation.

    Returns:
        layer: The copy, or `layer`.

    Warns:
        UserWarning: If the layer does not say how it was made.
    """
    if (
        not isinstance(layer, keras.layers.Layer)
        or isinstance(layer, keras.layers.Lambda)
        or hasattr(layer, "adapt")
    ):
        return layer
    try:
        return _from_config(layer)
    except Exception as error:  # whatever happens in a user's layer
        warnings.warn(
            f"Layer '{layer.name}', a {type(layer).__name__}, is kept itself, "
            "not copied, as its `get_config` and `from_config` do not make "
            f"another one: both models have it, and training one of them "
            f"changes it in both. {type(error).__name__}: "
            f"{textwrap.shorten(str(error), 300, placeholder=' ...')}",
            stacklevel=2,
        )
        return layer


def _from_config(layer):
    config = layer.get_config()
    try:
        # Which the configuration that Keras makes up does not have.
        return type(layer).from_config({**config, "name": layer.name})
    except TypeError:
        return type(layer).from_config(config)
