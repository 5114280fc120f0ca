"""Base of all families of weight posteriors."""

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import TypeAlias

import keras

from tfp_refine import _validation
from tfp_refine.layers import variational_weight

AddWeight: TypeAlias = Callable[..., keras.Variable]


@keras.saving.register_keras_serializable(package="tfp_refine")
class PosteriorFamily(_validation.Shown):
    """A family of Gaussian posteriors, for `kernel_posterior` and the like.

    It owns no variables: each layer does, one set for each weight tensor. So
    one object can serve any number of layers.
    """

    def build(
        self,
        add_weight: AddWeight,
        name: str,
        loc: keras.Variable,
        unit_axes: tuple[int, ...] = (-1,),
    ) -> variational_weight.VariationalWeight:
        """Creates the variables of one weight tensor, except its means, `loc`.

        The layer owns them, through its `add_weight`; their names begin with
        `name`, "kernel" or "bias". `unit_axes` are the axes of `loc` that count
        units. Raises a `ValueError` if the family does not fit the shape of the
        weights.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `build`"
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments, as a dict: the attributes of their names."""
        names = _validation.parameters(type(self))
        return {name: vars(self)[name] for name in names if name in vars(self)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "PosteriorFamily":
        """Creates the family that a config describes."""
        return cls(**config)


class RankedFamily(PosteriorFamily):
    """Base of families with matrices of some rank, which start at random."""

    def __init__(
        self,
        rank: int | None = None,
        initial_scale: float = 1e-3,
        seed: int | None = 0,
    ) -> None:
        self.rank = rank
        if rank is not None:
            self.rank = _validation.positive_integer("rank", rank)
        self.initial_scale = _validation.positive(
            "initial_scale", initial_scale
        )
        self.seed = seed
        if seed is not None:
            self.seed = _validation.not_negative_integer("seed", seed)
