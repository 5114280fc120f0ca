"""Copies of Keras models with weights of their own."""

import contextlib
import pathlib
import tempfile
import warnings

import keras
import tensorflow as tf

from tfp_refine import _storage

_MODEL = "model.keras"


def copy(model, input_specs=None):
    """Builds a model of the same configuration, compiled alike.

    Its weights may have other values. A subclassed model that is built by a
    call needs `input_specs`, `tf.TensorSpec`s (nested as its inputs).
    """
    try:
        with scope(model):
            clone = type(model).from_config(model.get_config())
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ValueError(
            f"The model '{model.name}' cannot be copied: it, and every "
            "layer of it, must implement `get_config` and `from_config` "
            f"({error})"
        ) from error
    if not clone.built or len(clone.weights) != len(model.weights):
        clone(_zeros(input_specs or find_input_specs(model)))
    if _is_more_than_its_config(model):
        clone = _copy_through_file(model)
    if model.compiled:
        optimizer = type(model.optimizer).from_config(
            model.optimizer.get_config()
        )
        optimizer.build(clone.trainable_variables)
        clone.compile(
            optimizer=optimizer, loss=model.loss, jit_compile=model.jit_compile
        )
    return clone


def scope(model):
    """Returns a scope in which Keras finds the classes of a model's layers."""
    return keras.saving.CustomObjectScope(
        {
            kind.__name__: kind
            for layer in model._flatten_layers()
            for kind in reversed(type(layer).__mro__)
            if kind.__module__.partition(".")[0] not in ("builtins", "keras")
        }
    )


@contextlib.contextmanager
def uncompiled(model):
    """Hides losses and optimizers, which copies of Keras would have, too.

    They take time to make, and need not be of use to the copy.
    """
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


def find_input_specs(model):
    """Returns the inputs' `tf.TensorSpec`s; `None` of a subclassed model."""
    sequential = isinstance(model, keras.Sequential)
    try:
        inputs = model.inputs[0] if sequential else model.input
    except AttributeError:
        return None
    return keras.tree.map_structure(
        lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), inputs
    )


def describe_specs(specs):
    """Describes `tf.TensorSpec`s (or nested) by lists and dicts, for JSON."""
    if specs is None:
        return None
    return keras.tree.map_structure(
        lambda spec: [list(spec.shape), spec.dtype.name], specs
    )


def specs_of(described):
    """Returns the `tf.TensorSpec`s that `describe_specs` described."""
    if described is None:
        return None
    if isinstance(described, dict):
        return {name: specs_of(value) for name, value in described.items()}
    if len(described) == 2 and isinstance(described[1], str):
        return tf.TensorSpec(*described)
    return [specs_of(value) for value in described]


def to_bytes(model):
    """Returns the contents of a model's `.keras` file."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / _MODEL
        try:
            model.save(path)
        except OSError as error:  # The temporary folder may be full.
            raise _storage.not_written(path, error) from error
        return path.read_bytes()


def from_bytes(contents, custom_objects=None):
    """Loads a model, uncompiled if its loss cannot be found again."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / _MODEL
        path.write_bytes(contents)
        for compiled in (True, False):
            try:
                with warnings.catch_warnings():
                    # Of an optimizer that has not taken a step.
                    warnings.filterwarnings("ignore", "Skipping variable")
                    return keras.models.load_model(
                        path, custom_objects=custom_objects, compile=compiled
                    )
            except Exception as error:  # of any kind: Keras runs `from_config`
                failure = error
    raise ValueError(
        "The model in the file cannot be loaded. Your own classes must be "
        "registered with Keras, or given as `custom_objects`."
    ) from failure


def _is_more_than_its_config(model):
    """Checks whether only a file keeps all: shared priors, preprocessing."""
    return any(
        getattr(weight.regularizer, "shared", False)
        for layer in model._flatten_layers()
        for weight in getattr(layer, "variational_weights", ())
    ) or any(hasattr(layer, "adapt") for layer in model._flatten_layers())


def _copy_through_file(model):
    with tempfile.TemporaryDirectory() as directory, scope(model):
        path = pathlib.Path(directory) / _MODEL
        model.save(path)
        return keras.models.load_model(path, compile=False)


def _zeros(specs):
    return keras.tree.map_structure(
        lambda spec: tf.zeros([1, *spec.shape[1:]], spec.dtype), specs
    )
