"""Weight posteriors with correlations of low rank."""

import math

import keras
import tensorflow as tf

from tfp_refine.layers import noise as random_draws
from tfp_refine.layers import posterior_family
from tfp_refine.layers import shared_softplus
from tfp_refine.layers import variational_weight
from tfp_refine.math import low_rank
from tfp_refine.math import softplus

_RANK = 5
# Initial factors, relative to the initial scale.
_SMALL = 0.1


@keras.saving.register_keras_serializable(package="tfp_refine")
class LowRankPosterior(posterior_family.RankedFamily):
    """Gaussian posterior: a diagonal covariance plus one of low rank.

    `w = loc + scale * e + K**-0.5 sum_k z_k factor_k`, with `e` and the `K`
    numbers `z_k` standard normal, and factors of the shape of the weights.
    With local reparameterization and Flipout, each example has a `z` of its
    own; the KL divergence is exact for every prior here.

    Args:
        rank: `K`, positive integer. Defaults to `None`: 5, or the number of
            weights if that is less.
        initial_scale: Standard deviation of the independent part that training
            starts from; the factors are a tenth of it. Defaults to `1e-3`.
        seed: Integer seed of the initial factors. Defaults to `0`.

    Raises:
        ValueError: If an argument is invalid; and, when the layer is built, if
            `rank` is larger than the number of weights.

    Example:

    ```python
    layer = tfp_refine.layers.DenseFlipout(
        10,
        kernel_posterior=tfp_refine.layers.LowRankPosterior(rank=3),
        num_train_examples=60000,
    )
    ```

    References:
        - [Tomczak et al., 2020](https://papers.nips.cc/paper/2020/hash/310cc7ca5a76a446f85c1a0d641ba96d-Abstract.html)
        - [Mishkin et al., 2018](https://arxiv.org/abs/1811.04504)
    """

    def build(
        self,
        add_weight: posterior_family.AddWeight,
        name: str,
        loc: keras.Variable,
        unit_axes: tuple[int, ...] = (-1,),
    ) -> "LowRankWeight":
        size = math.prod(loc.shape)
        rank = self.rank or min(_RANK, size)
        if rank > size:
            raise ValueError(
                "`rank` must not be larger than the number of weights. "
                f"Received: rank={rank} for {size} weights ({name})"
            )
        raw = softplus.inverse_of_float(self.initial_scale)
        untransformed_diagonal = add_weight(
            name=f"{name}_untransformed_diagonal",
            shape=loc.shape,
            initializer=keras.initializers.Constant(raw),
        )
        factor = add_weight(
            name=f"{name}_factor",
            shape=(rank, *loc.shape),
            initializer=keras.initializers.RandomNormal(
                stddev=_SMALL * self.initial_scale, seed=self.seed
            ),
        )
        return LowRankWeight(name, loc, untransformed_diagonal, factor)


class LowRankWeight(variational_weight.VariationalWeight):
    """A weight tensor whose covariance is a diagonal plus one of low rank.

    The softplus of `untransformed_diagonal`, `[...]`, is the standard deviation
    of the independent part; `factor` is `[K, ...]`.
    """

    family = "low_rank"

    factor: keras.Variable

    def __init__(
        self,
        name: str,
        loc: keras.Variable,
        untransformed_diagonal: keras.Variable,
        factor: keras.Variable,
    ) -> None:
        super().__init__(name, loc, (untransformed_diagonal, factor))
        self.untransformed_diagonal = untransformed_diagonal
        self.factor = factor

    @property
    def independent_scale(self) -> tf.Tensor:
        return shared_softplus.softplus(self.untransformed_diagonal)

    @property
    def scale(self) -> tf.Tensor:
        return low_rank.marginal_scale(
            self.independent_scale, keras.ops.convert_to_tensor(self.factor)
        )

    def _initialize_scale(self, scale: tf.Tensor) -> None:
        """Sets the independent part; factors keep their ratio to it."""
        ratio = scale / self.independent_scale
        self.factor.assign(ratio * self.factor)
        self.untransformed_diagonal.assign(softplus.inverse(scale))

    def total_correlation(self) -> tf.Tensor:
        return low_rank.total_correlation(
            self.independent_scale, keras.ops.convert_to_tensor(self.factor)
        )

    def _noise(
        self, seed: variational_weight.Seed | None
    ) -> tuple[tf.Tensor, ...]:
        rank = (self.factor.shape[0],)
        return (
            *super()._noise(seed),
            random_draws.standard_normal(rank, self.loc.dtype, seed),
        )

    def _deviation(self, noise: tuple[tf.Tensor, ...]) -> tf.Tensor:
        independent, coefficients = noise
        factor = keras.ops.convert_to_tensor(self.factor)
        return super()._deviation((independent,)) + keras.ops.tensordot(
            coefficients / factor.shape[0] ** 0.5, factor, axes=1
        )
