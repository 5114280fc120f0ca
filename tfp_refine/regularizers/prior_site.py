"""The weight tensor that a prior is placed on."""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras


class PriorSite(NamedTuple):
    """What a KL regularizer may know of a weight tensor when it is built.

    Attributes:
        name: "kernel" or "bias".
        loc: Variable of the posterior means.
        add_weight: The `add_weight` method of the layer that owns them.
        shared: Dict of that layer, for what its weight tensors share.
    """

    name: str
    loc: keras.Variable
    add_weight: Callable[..., keras.Variable]
    shared: dict[Any, Any]
