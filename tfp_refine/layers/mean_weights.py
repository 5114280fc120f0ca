"""A scope in which variational layers do not sample."""

import contextlib
import threading

_STATE = threading.local()


@contextlib.contextmanager
def mean_weights(active=True):
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
    before = is_active()
    _STATE.active = bool(active)
    try:
        yield
    finally:
        _STATE.active = before


def is_active():
    """Tells whether the scope is active in this thread."""
    return getattr(_STATE, "active", False)
