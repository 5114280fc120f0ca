"""Objects as the calls that make them, for `repr`."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

# Arguments of Keras' objects that few readers ask for: shown if they differ
# from a default.
_HIDDEN = ("dtype", "kwargs", "name", "reduction")


class Shown:
    """Mixin whose `repr` is the class with its arguments.

    They are attributes of these names, or the entries of `get_config`, if
    there is one.
    """

    def _shown_arguments(self) -> dict[str, Any]:
        """Returns the arguments that `repr` shows, by name."""
        config = self.get_config() if hasattr(self, "get_config") else {}
        shown = {}
        for name, parameter in parameters(type(self)).items():
            default = parameter.default
            if name in _HIDDEN and default in (None, parameter.empty):
                continue
            value = config[name] if name in config else getattr(self, name)
            if name not in _HIDDEN or value != default:
                shown[name] = value
        return shown

    def __repr__(self) -> str:
        return shown_call(type(self).__name__, self._shown_arguments())


def parameters(kind: type) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a constructor, by name, without `self`.

    Of a class that inherits `__init__` from a base, and `__new__` from one
    above it, `inspect.signature` has those of `__new__` before Python 3.11.5.
    """
    if kind.__init__ is object.__init__:
        return {}
    _, *found = inspect.signature(kind.__init__).parameters.items()
    return dict(found)


def shown_call(function: str, arguments: Mapping[str, Any]) -> str:
    """Returns a call as text, `function(argument=value, ...)`."""
    shown = (f"{name}={shown_value(one)}" for name, one in arguments.items())
    return f"{function}({', '.join(shown)})"


def shown_value(given: Any) -> str:
    """Returns a value as text: of arrays, their type and shape."""
    if isinstance(given, Mapping) and {"class_name", "config"} <= given.keys():
        config = given["config"]
        if not isinstance(config, Mapping):  # the name of a function
            return str(config)
        return shown_call(given["class_name"], config)
    if isinstance(given, np.generic):
        given = given.item()
    if getattr(given, "shape", ()) and hasattr(given, "dtype"):
        dtype = getattr(given.dtype, "name", given.dtype)
        return f"<{dtype} {list(given.shape)}>"
    if inspect.isroutine(given):
        return given.__qualname__
    return repr(given)
