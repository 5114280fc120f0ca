"""Weight posteriors whose scales form a matrix of low rank."""

import functools
import math

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.layers import noise as random_draws
from tfp_refine.layers import posterior_family
from tfp_refine.layers import shared_softplus
from tfp_refine.layers import variational_weight
from tfp_refine.math import philox
from tfp_refine.math import softplus

_RANK = 2
# Relative spread of the initial factors: equal ones would stay equal.
_JITTER = 0.1


@keras.saving.register_keras_serializable(package="tfp_refine")
class KTiedPosterior(posterior_family.RankedFamily):
    """Independent Gaussian posterior whose scales are tied, of rank `k`.

    The standard deviations of a kernel, seen as a matrix `[D, U]` of all its
    inputs and its units, are `rows @ transpose(columns)`, with positive
    `rows [D, k]` and `columns [U, k]`: `k (D + U)` numbers in place of `D U`.
    A bias is a matrix of one row, so its rank is 1.

    Args:
        rank: `k`, positive integer. Defaults to `None`: 2, or 1 where a side of
            the matrix is 1.
        initial_scale: Standard deviation that training starts from, with a
            relative jitter of a tenth. Defaults to `1e-3`.
        seed: Integer seed of that jitter. Defaults to `0`.

    Raises:
        ValueError: If an argument is invalid; and, when the layer is built, if
            `rank` is larger than a side of the matrix.

    Example:

    ```python
    layer = tfp_refine.layers.DenseFlipout(
        10,
        kernel_posterior=tfp_refine.layers.KTiedPosterior(rank=3),
        num_train_examples=60000,
    )
    ```

    Reference:
        - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """

    def build(
        self,
        add_weight: posterior_family.AddWeight,
        name: str,
        loc: keras.Variable,
        unit_axes: tuple[int, ...] = (-1,),
    ) -> "KTiedWeight":
        num_columns = math.prod(loc.shape[axis] for axis in unit_axes)
        num_rows = math.prod(loc.shape) // num_columns
        rank = self.rank or min(_RANK, num_rows, num_columns)
        if rank > min(num_rows, num_columns):
            raise ValueError(
                "`rank` must not be larger than a side of the matrix of scales."
                f" Received: rank={rank} for {num_rows} x {num_columns} "
                f"({name})"
            )
        factors = [
            add_weight(
                name=f"{name}_untransformed_{side}",
                shape=(size, rank),
                initializer=functools.partial(self._initialize, index),
            )
            for index, (side, size) in enumerate(
                (("rows", num_rows), ("columns", num_columns))
            )
        ]
        rows, columns = factors
        return KTiedWeight(name, loc, rows, columns, unit_axes)

    def _initialize(
        self, index: int, shape: tuple[int, ...], dtype: str
    ) -> tf.Tensor:
        """Draws factors whose product has entries of about `initial_scale`."""
        seed = None if self.seed is None else 2 * self.seed + index
        jitter = _JITTER * philox.normal(
            shape, random_draws.next_seed(seed), dtype
        )
        factor = math.sqrt(self.initial_scale / shape[-1]) * keras.ops.exp(
            jitter
        )
        return softplus.inverse(factor)


class KTiedWeight(variational_weight.VariationalWeight):
    """A weight tensor whose scales are a matrix of low rank.

    `untransformed_rows` is `[D, k]`, `untransformed_columns` is `[U, k]`.
    """

    family = "k_tied"

    def __init__(
        self,
        name: str,
        loc: keras.Variable,
        untransformed_rows: keras.Variable,
        untransformed_columns: keras.Variable,
        unit_axes: tuple[int, ...] = (-1,),
    ) -> None:
        super().__init__(name, loc, (untransformed_rows, untransformed_columns))
        self.untransformed_rows = untransformed_rows
        self.untransformed_columns = untransformed_columns
        rank = len(loc.shape)
        units = [axis % rank for axis in unit_axes]
        # Axes in the order of the matrix: inputs first.
        self._order = [i for i in range(rank) if i not in units] + units

    def _initialize_scale(self, scale: tf.Tensor) -> None:
        """Sets the product of rank 1 whose logarithms are closest.

        The ratios of the `k` terms are kept: equal terms would stay equal.
        """
        matrix = keras.ops.reshape(
            keras.ops.transpose(keras.ops.log(scale), self._order),
            (self.untransformed_rows.shape[0], -1),
        )
        half = 0.5 * keras.ops.mean(matrix)
        for axis, factor in zip((1, 0), self.scale_weights, strict=True):
            terms = factor.shape[-1]
            log = keras.ops.mean(matrix, axis=axis) - half
            ratio = keras.ops.softplus(factor)
            ratio /= keras.ops.mean(ratio, axis=-1, keepdims=True)
            value = ratio * keras.ops.exp(log)[:, None] / terms**0.5
            factor.assign(softplus.inverse(value))

    @property
    def scale(self) -> tf.Tensor:
        rows, columns = (
            shared_softplus.softplus(factor) for factor in self.scale_weights
        )
        matrix = keras.ops.matmul(rows, keras.ops.transpose(columns))
        shape = [self.loc.shape[axis] for axis in self._order]
        return keras.ops.transpose(
            keras.ops.reshape(matrix, shape), np.argsort(self._order).tolist()
        )
