"""Weight posteriors whose scales are fixed."""

import math

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import posterior_family
from tfp_refine.layers import variational_weight

_SCALE = math.exp(-5.0)


@keras.saving.register_keras_serializable(package="tfp_refine")
class FixedVariancePosterior(posterior_family.PosteriorFamily):
    """Independent Gaussian posterior with one fixed scale (FV).

    Args:
        scale: Standard deviation of every weight. Defaults to `exp(-5)`.

    Raises:
        ValueError: If `scale` is not a positive finite number.

    Example:

    ```python
    layer = tfp_refine.layers.DenseFlipout(
        10,
        kernel_posterior=tfp_refine.layers.FixedVariancePosterior(0.01),
        num_train_examples=60000,
    )
    ```

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX),
          where it is a baseline
    """

    def __init__(self, scale: float = _SCALE) -> None:
        self.scale = _validation.positive("scale", scale)

    def build(
        self,
        add_weight: posterior_family.AddWeight,
        name: str,
        loc: keras.Variable,
        unit_axes: tuple[int, ...] = (-1,),
    ) -> "FixedVarianceWeight":
        return FixedVarianceWeight(name, loc, self.scale)


class FixedVarianceWeight(variational_weight.VariationalWeight):
    """A weight tensor with the posterior `N(loc, scale**2)`, `scale` fixed."""

    family = "fixed_variance"

    def __init__(self, name: str, loc: keras.Variable, scale: float) -> None:
        super().__init__(name, loc)
        self._scale = scale

    def _initialize_scale(self, scale: tf.Tensor) -> None:
        """Does nothing: the scale is fixed."""

    @property
    def scale(self) -> tf.Tensor:
        return keras.ops.full(self.loc.shape, self._scale, dtype=self.loc.dtype)
