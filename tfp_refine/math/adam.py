"""Adam, as Keras has it, as a pure function.

Reference:
    - [Kingma and Ba, 2015](https://arxiv.org/abs/1412.6980)
"""

from typing import NamedTuple

import tensorflow as tf

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-7


class AdamState(NamedTuple):
    """Moments of Adam, of the shape of the parameters."""

    first: tf.Tensor
    second: tf.Tensor


def step(
    params: tf.Tensor,
    gradient: tf.Tensor,
    moments: AdamState,
    count: tf.Tensor,
    learning_rate: tf.Tensor,
) -> tuple[tf.Tensor, AdamState]:
    """Takes one step of Adam, with Keras' constants; `moments` start at zeros.

    `count` is the number of steps taken before. Returns `params` and `moments`.
    """
    number = tf.cast(count + 1, params.dtype)
    first = moments.first + (gradient - moments.first) * (1.0 - _BETA_1)
    second = moments.second + (tf.square(gradient) - moments.second) * (
        1.0 - _BETA_2
    )
    rate = (
        tf.cast(learning_rate, params.dtype)
        * tf.sqrt(1.0 - tf.constant(_BETA_2, number.dtype) ** number)
        / (1.0 - tf.constant(_BETA_1, number.dtype) ** number)
    )
    params = params - rate * first / (tf.sqrt(second) + _EPSILON)
    return params, AdamState(first, second)
