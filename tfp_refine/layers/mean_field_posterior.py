"""The mean-field family of weight posteriors."""

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import posterior_family
from tfp_refine.layers import shared_softplus
from tfp_refine.layers import variational_weight
from tfp_refine.math import softplus


@keras.saving.register_keras_serializable(package="tfp_refine")
class MeanFieldPosterior(posterior_family.PosteriorFamily):
    """Independent Gaussian posterior: a mean and a scale for each weight.

    Pass it as `kernel_posterior` or `bias_posterior`; the string "mean_field"
    stands for one with default arguments. It creates two variables for each
    weight tensor: the mean, and a value whose softplus is the standard
    deviation.

    Args:
        initial_scale: Standard deviation that training starts from. Small
            values let the means fit first, which slowly fitted data need.
            Defaults to `1e-3`.

    Raises:
        ValueError: If `initial_scale` is not a positive finite number.

    Example:

    ```python
    layer = tfp_refine.layers.DenseFlipout(
        10,
        kernel_posterior=tfp_refine.layers.MeanFieldPosterior(0.01),
        num_train_examples=60000,
    )
    ```
    """

    def __init__(self, initial_scale: float = 1e-3) -> None:
        self.initial_scale = _validation.positive(
            "initial_scale", initial_scale
        )

    def build(
        self,
        add_weight: posterior_family.AddWeight,
        name: str,
        loc: keras.Variable,
        unit_axes: tuple[int, ...] = (-1,),
    ) -> "MeanFieldWeight":
        raw = softplus.inverse_of_float(self.initial_scale)
        untransformed_scale = add_weight(
            name=f"{name}_untransformed_scale",
            shape=loc.shape,
            initializer=keras.initializers.Constant(raw),
        )
        return MeanFieldWeight(name, loc, untransformed_scale)


class MeanFieldWeight(variational_weight.VariationalWeight):
    """A weight tensor with the posterior `N(loc, scale**2)`, independent.

    The softplus of `untransformed_scale` is the standard deviation.
    """

    family = "mean_field"
    has_free_scales = True

    def __init__(
        self,
        name: str,
        loc: keras.Variable,
        untransformed_scale: keras.Variable,
    ) -> None:
        super().__init__(name, loc, (untransformed_scale,))
        self.untransformed_scale = untransformed_scale

    @property
    def scale(self) -> tf.Tensor:
        return shared_softplus.softplus(self.untransformed_scale)

    def _assign_scale(self, scale: tf.Tensor) -> None:
        self.untransformed_scale.assign(softplus.inverse(scale))
