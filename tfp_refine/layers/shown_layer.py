"""Layers as the calls that make them, for `repr`."""

import inspect
from typing import Any

import keras

from tfp_refine import _validation
from tfp_refine import regularizers
from tfp_refine.layers import posterior_lookup

# Functions that turn the default of an argument, a name, into an object, by the
# ending of the argument.
_LOOKUPS = {
    "_initializer": keras.initializers.get,
    "_posterior": posterior_lookup.get,
    "_regularizer": regularizers.get,
}


class ShownLayer(_validation.Shown, keras.layers.Layer):
    """Base of layers whose `repr` is the class with its changed arguments.

    A layer has too many to show them all; its name is always there.
    """

    def _shown_arguments(self) -> dict[str, Any]:
        """Returns the name, and the arguments that are not the default ones."""
        config = self.get_config()
        arguments = _validation.parameters(type(self))
        changed = {
            name: config[name]
            for name, argument in arguments.items()
            if name in config and not _is_default(config[name], argument)
        }
        return changed | {"name": config["name"]}


def _is_default(value: Any, argument: inspect.Parameter) -> bool:
    """Returns whether a value of a config is that of an argument not given."""
    default = argument.default
    if default is argument.empty:
        return False
    if argument.name == "dtype":
        default = keras.saving.serialize_keras_object(
            keras.config.dtype_policy()
        )
    elif argument.name == "data_format" and default is None:
        default = keras.config.image_data_format()
    elif argument.name.endswith("activation") and default is None:
        default = "linear"
    elif isinstance(value, list | tuple) and isinstance(default, int):
        return set(value) == {default}
    for ending, lookup in _LOOKUPS.items():
        if argument.name.endswith(ending):
            default = keras.saving.serialize_keras_object(lookup(default))
    return _validation.shown_value(value) == _validation.shown_value(default)
