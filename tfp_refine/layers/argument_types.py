"""Arguments that several layers take: their types, and how to pass them on."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import argument_checks
from tfp_refine.layers import posterior_family

# A Keras object can be given as itself, by name or as its configuration.
_Config: TypeAlias = str | Mapping[str, Any] | None

Activation: TypeAlias = _Config | Callable[[tf.Tensor], tf.Tensor]
Constraint: TypeAlias = _Config | keras.constraints.Constraint
DType: TypeAlias = _Config | keras.DTypePolicy
Initializer: TypeAlias = _Config | keras.initializers.Initializer
Posterior: TypeAlias = (
    _Config
    | posterior_family.PosteriorFamily
    | type[posterior_family.PosteriorFamily]
)
Regularizer: TypeAlias = _Config | keras.regularizers.Regularizer

# One integer for all spatial axes, or one for each.
Sizes: TypeAlias = int | Sequence[int]
Shape: TypeAlias = tuple[int | None, ...]


def passed(scope: Mapping[str, Any], *without: str) -> dict[str, Any]:
    """Returns the arguments of a constructor, given its `locals()`, checked."""
    argument_checks.check(scope)
    hidden = {"self", "__class__", *without}
    return {name: scope[name] for name in scope if name not in hidden}


def passed_to(base: type, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of them that the constructor of a base has too."""
    names = _validation.parameters(base)
    return {name: scope[name] for name in names if name in scope}
