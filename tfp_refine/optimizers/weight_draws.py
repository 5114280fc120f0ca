"""Weights that a model draws while it is trained.

Between an optimizer and a model stands nothing in Keras but the variables. So
those that an optimizer with a posterior trains give other values while a
gradient is to be taken: draws from its posterior. The variables themselves hold
the means, always.
"""

import functools
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend
from tensorflow.python.eager import record

from tfp_refine.layers import scopes


class DrawnVariable:
    """Mixin of variables whose value is a draw while a gradient is taken.

    That is while a gradient tape watches a call of the model that was compiled
    with the optimizer, outside `layers.mean_weights`. Calls with weights that
    are arguments, by `stateless_call`, take these.
    """

    _value: Any

    @property
    def value(self) -> Any:
        model, optimizer = _at_work()
        if optimizer is None or not optimizer.has_posterior_of(self):
            return super().value  # type: ignore[misc]
        optimizer.check_loss(model)
        return self._maybe_autocast(optimizer.draw(self))  # type: ignore[attr-defined]


def make_drawn(variables: list[keras.Variable]) -> None:
    """Makes variables give draws while a gradient is taken, in place."""
    for variable in variables:
        if not isinstance(variable, DrawnVariable):
            kind: Any = type(variable)
            variable.__class__ = _drawn_class(kind)


def optimizer_of(model: Any) -> Any:
    """Returns the optimizer, with a posterior, that trains a model.

    `None` if the model is not compiled with one.
    """
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    return optimizer if hasattr(optimizer, "has_posterior_of") else None


def raw(variable: keras.Variable) -> tf.Tensor:
    """Returns the value of a variable, neither drawn nor cast."""
    return tf.convert_to_tensor(variable._value)


@functools.cache
def _drawn_class(kind: type) -> type:
    return type(kind.__name__, (DrawnVariable, kind), {})


def _at_work() -> tuple[Any, Any]:
    """Finds the model that is being trained, and its optimizer if it draws."""
    if not record.could_possibly_record() or backend.in_stateless_scope():
        return None, None
    call = backend.common.global_state.get_global_attribute("current_call_ctx")
    model = getattr(call, "entry_layer", None)
    optimizer = optimizer_of(model)
    if optimizer is None or scopes.uses_means():
        return None, None
    return model, optimizer
