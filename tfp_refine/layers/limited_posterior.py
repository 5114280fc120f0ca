"""Mean-field posteriors whose draws have limited scales."""

import keras
import tensorflow as tf

from tfp_refine.layers import mean_field_posterior
from tfp_refine.layers import posterior_family


class LimitedPosterior(mean_field_posterior.MeanFieldPosterior):
    """Mean-field posterior with an upper limit on the scales of draws."""

    def __init__(self, initial_scale: float, max_std: float | None) -> None:
        super().__init__(initial_scale)
        self.max_std = max_std

    def build(
        self,
        add_weight: posterior_family.AddWeight,
        name: str,
        loc: keras.Variable,
        unit_axes: tuple[int, ...] = (-1,),
    ) -> "LimitedWeight":
        weight = super().build(add_weight, name, loc, unit_axes)
        return LimitedWeight(
            name, loc, weight.untransformed_scale, self.max_std
        )


class LimitedWeight(mean_field_posterior.MeanFieldWeight):
    """A weight tensor `N(loc, scale**2)` with an upper limit on draws' scales.

    The KL divergence has no limit, unless it is asked for.
    """

    def __init__(
        self,
        name: str,
        loc: keras.Variable,
        untransformed_scale: keras.Variable,
        max_std: float | None,
    ) -> None:
        super().__init__(name, loc, untransformed_scale)
        self.max_std = max_std

    @property
    def limited_scale(self) -> tf.Tensor:
        if self.max_std is None:
            return self.scale
        # No gradient above the limit: there the prior alone pulls.
        return keras.ops.minimum(self.scale, self.max_std)

    @property
    def _draw_scale(self) -> tf.Tensor:
        return self.limited_scale
