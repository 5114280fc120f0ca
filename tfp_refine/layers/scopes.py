"""Scopes that change calls of variational layers."""

import contextlib
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf


class _State(threading.local):
    """Settings of the scopes that a thread is in."""

    uses_means = False
    sample: bool | None = None
    observer: Callable[[keras.layers.Layer, tf.Tensor], Any] | None = None


_STATE = _State()


@contextlib.contextmanager
def mean_weights(active: bool = True) -> Iterator[None]:
    """Makes variational layers use their posterior means inside the scope.

    It acts where a layer's Python code runs: on eager calls and on functions
    traced inside the scope, not on functions traced before. A layer called with
    an explicit `sample` argument obeys that, and so does `predict`.

    Args:
        active: If `False`, layers sample as they would outside any scope.
            Defaults to `True`.

    Example:

    ```python
    with tfp_refine.layers.mean_weights():
        outputs = model(x)
    ```
    """
    before = _STATE.uses_means
    _STATE.uses_means = bool(active)
    try:
        yield
    finally:
        _STATE.uses_means = before


@contextlib.contextmanager
def observe_inputs(
    observer: Callable[[keras.layers.Layer, tf.Tensor], Any],
) -> Iterator[None]:
    """Shows the inputs of variational layers inside the scope.

    It acts where a layer's Python code runs: on eager calls, and once when a
    function is traced inside the scope.

    Args:
        observer: Called as `observer(layer, inputs)` before each call of a
            layer, with the inputs in the layer's `compute_dtype` (of an
            embedding, as they are). `None`: those of outer scopes are not
            called.

    Example:

    ```python
    def show(layer, inputs):
        print(layer.name, inputs.shape)


    with tfp_refine.layers.observe_inputs(show):
        model(x)
    ```
    """
    if observer is not None and not callable(observer):
        raise ValueError(
            "`observer` must be a function of a layer and its inputs, or None. "
            f"Received: observer={observer!r}"
        )
    before = _STATE.observer
    _STATE.observer = observer
    try:
        yield
    finally:
        _STATE.observer = before


def is_sampling(sample: bool | None, default: bool) -> bool:
    """Returns whether a call draws weights: `sample`, or else `default`."""
    if sample is None:
        sample = _STATE.sample
    if sample is None:
        return default and not _STATE.uses_means
    return sample


@contextlib.contextmanager
def sampling(sample: bool) -> Iterator[None]:
    """Passes the `sample` of a call on to the layers inside a layer."""
    before = _STATE.sample
    _STATE.sample = sample
    try:
        yield
    finally:
        _STATE.sample = before


def uses_means() -> bool:
    """Returns whether `mean_weights` is active in this thread."""
    return _STATE.uses_means


def notify(layer: keras.layers.Layer, inputs: tf.Tensor) -> None:
    """Shows the inputs of a layer to the observer, if there is one."""
    if _STATE.observer is not None:
        _STATE.observer(layer, inputs)
