"""Initializers of posteriors by name, class or object."""

from typing import Any

from tfp_refine.initializers import data_free
from tfp_refine.initializers import iblm
from tfp_refine.initializers import initializer
from tfp_refine.initializers import lsuv
from tfp_refine.initializers import moped

_BY_NAME = {
    "heuristic": data_free.Heuristic,
    "iblm": iblm.IBLM,
    "lsuv": lsuv.LSUV,
    "moped": moped.MOPED,
    "orthogonal": data_free.Orthogonal,
    "uninformative": data_free.Uninformative,
    "xavier_normal": data_free.XavierNormal,
}


def get(identifier: Any) -> Any:
    """Retrieves an initializer of posteriors.

    Args:
        identifier: Name in snake case ("iblm"), a `PosteriorInitializer` or
            its class, or another function of a model and its training data.

    Returns:
        initializer: Function `(model, x, y, sample_weight=None)`.

    Raises:
        ValueError: If it is neither.

    Example:

    ```python
    initializer = tfp_refine.initializers.get("lsuv")
    initializer(model, x_train, y_train)
    ```
    """
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    if isinstance(identifier, type) and (
        identifier in _BY_NAME.values()
        or issubclass(identifier, initializer.PosteriorInitializer)
    ):
        return identifier()
    if not callable(identifier):
        raise ValueError(
            f"An initializer of posteriors must be one of {sorted(_BY_NAME)}, "
            "or a function of a model and its training data. "
            f"Received: {identifier!r}"
        )
    return identifier
