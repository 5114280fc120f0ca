"""A scope in which someone sees the inputs of variational layers."""

import contextlib
import threading

_STATE = threading.local()


@contextlib.contextmanager
def observe_inputs(observer):
    """Shows the inputs of variational layers inside the scope.

    It acts where a layer's Python code runs: on eager calls, and once when a
    function is traced inside the scope.

    Args:
        observer: Called as `observer(layer, inputs)` at each call of a layer,
            before it, with the inputs in the layer's `compute_dtype`.

    Example:

    ```python
    def show(layer, inputs):
        print(layer.name, inputs.shape)


    with tfp_refine.layers.observe_inputs(show):
        model(x)
    ```
    """
    before = getattr(_STATE, "observer", None)
    _STATE.observer = observer
    try:
        yield
    finally:
        _STATE.observer = before


def notify(layer, inputs):
    """Shows the inputs of a layer to the observer, if there is one."""
    observer = getattr(_STATE, "observer", None)
    if observer is not None:
        observer(layer, inputs)
