"""Checks of the arguments that layers hand on to Keras.

Keras' own errors show the value at most, and many come when a layer is called.
"""

import inspect
import numbers
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation


def check(arguments: Mapping[str, Any]) -> None:
    """Raises a `ValueError` that names an argument which Keras cannot use.

    `arguments` are those of a constructor, such as its `locals()`; unknown
    names are left to others.
    """
    if "dtype" in arguments:
        _validation.check_dtype(arguments["dtype"])
    for name, value in arguments.items():
        for ending, (is_good, wanted) in _CHECKS.items():
            if name.endswith(ending) and not _validation.holds(is_good, value):
                raise ValueError(
                    f"`{name}` must be {wanted}. Received: {name}={value!r}"
                )


def check_activation(name: str, function: Any, size: int) -> None:
    """Checks a function that is applied to units one by one, `[B, size]`."""
    if inspect.isroutine(function) and not _validation.holds(
        lambda f: _called(f, size).shape == (1, size), function
    ):
        raise ValueError(
            f"`{name}` must be a function from a tensor to a tensor of its "
            f"shape. Received: {name}={function!r}"
        )


def check_initializers_with_configs(**arguments: Any) -> None:
    """Refuses functions and arrays, where Keras makes copies by configs."""
    for name, value in arguments.items():
        found = keras.initializers.get(value)
        if not isinstance(found, keras.initializers.Initializer):
            raise ValueError(
                f"`{name}` must be a Keras initializer, its name or its "
                f"config. Received: {name}={value!r}"
            )


def _called(function: Any, size: int) -> Any:
    with tf.init_scope():  # layers may be built in a graph
        return function(keras.ops.zeros((1, size)))


def _is_activation(value: Any) -> bool:
    return callable(keras.activations.get(value))


def _is_initializer(value: Any) -> bool:
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "biuf"
    return callable(keras.initializers.get(value))


def _is_constraint(value: Any) -> bool:
    found = keras.constraints.get(value)
    return found is None or callable(found)


def _is_object(value: Any) -> bool:
    """Says whether it is a regularizer, which files can hold."""
    found = keras.regularizers.get(value)
    return found is None or isinstance(found, keras.regularizers.Regularizer)


def _is_sizes(value: Any) -> bool:
    if isinstance(value, numbers.Integral):
        value = [value]
    sizes = _validation.positive_integers("sizes", value)
    return bool(sizes) and max(sizes) < 2**31


def _is_padding(value: Any) -> bool:
    sizes = [value] if isinstance(value, numbers.Integral) else value
    return value is None or all(
        _validation.not_negative_integer("size", size) < 2**31 for size in sizes
    )


def _is_axes(value: Any) -> bool:
    if value is None:
        return True
    axes = [value] if isinstance(value, numbers.Integral) else value
    return isinstance(axes, list | tuple) and all(
        isinstance(axis, numbers.Integral)
        and not isinstance(axis, bool)
        and abs(int(axis)) < 2**31
        for axis in axes
    )


def _is_rate(value: Any) -> bool:
    return _validation.not_negative("rate", value) < 1.0


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "activation": (
        _is_activation,
        "a function, the name of a Keras activation, or None",
    ),
    "_initializer": (
        _is_initializer,
        "a Keras initializer, its name or its config, or a function",
    ),
    "_constraint": (
        _is_constraint,
        "a Keras constraint, its name or its config, a function, or None",
    ),
    "activity_regularizer": (
        _is_object,
        "a Keras regularizer, its name or its config, or None",
    ),
    "kernel_size": (_is_sizes, "a positive integer, or one for each axis"),
    "strides": (_is_sizes, "a positive integer, or one for each axis"),
    "dilation_rate": (_is_sizes, "a positive integer, or one for each axis"),
    "output_padding": (
        _is_padding,
        "an integer, not negative, one for each axis, or None",
    ),
    "attention_axes": (_is_axes, "an integer, a few of them, or None"),
    "sliding_window": (
        lambda value: (
            value is None
            or _validation.positive_integer("sliding_window", value) < 2**31
        ),
        "a positive integer or None",
    ),
    "dropout": (_is_rate, "a number in [0, 1)"),
    "flash_attention": (
        lambda value: value is None or _is_flag(value),
        "a bool or None",
    ),
    "use_cudnn": (
        lambda value: value == "auto" or _is_flag(value),
        "a bool or 'auto'",
    ),
}
