"""Optimizers, and learning rates, of members that are trained together."""

import math
from typing import NamedTuple

import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.math import adam

DECAYS = ("constant", "linear", "cosine")
# The stream of the noise, apart from that of the layers.
_NOISE = 2**40


class Adam(NamedTuple):
    """Adam, as Keras has it."""

    def zeros(self, params):
        """Returns the state before the first step.

        Args:
            params: `[...]`.

        Returns:
            state: Tuple of tensors like `params`.
        """
        return (tf.zeros_like(params), tf.zeros_like(params))

    def step(self, params, gradient, state, number, learning_rate, key):
        """Takes a step.

        Args:
            params: `[P]`.
            gradient: Of the mean loss, `[P]`.
            state: What `zeros` or the last step returned.
            number: Number of steps taken before, integer scalar.
            learning_rate: Scalar.
            key: Integer scalar, of the random stream of a member.

        Returns:
            params: After the step.
            state: After the step.
        """
        del key
        params, moments = adam.step(
            params, gradient, adam.AdamState(*state), number, learning_rate
        )
        return params, tuple(moments)


class Momentum(NamedTuple):
    """Gradient descent with momentum; with noise, Hamiltonian Monte Carlo.

    `v <- momentum * v - rate * gradient + noise`, `params <- params + v`.

    Attributes:
        momentum: In [0, 1).
        noise_variance: Variance of the noise, over the learning rate.
        is_noisy: Function of the number of a step to whether it has noise.

    Reference:
        - [Chen et al., 2014](https://arxiv.org/abs/1402.4102), Eq. 15
    """

    momentum: float = 0.9
    noise_variance: float = 0.0
    is_noisy: object = None

    def zeros(self, params):
        """Returns the state before the first step, as `Adam`."""
        return (tf.zeros_like(params),)

    def step(self, params, gradient, state, number, learning_rate, key):
        """Takes a step, as `Adam`."""
        (velocity,) = state
        velocity = self.momentum * velocity - learning_rate * gradient
        if self.noise_variance:
            noise = tf.random.stateless_normal(
                tf.shape(params),
                tf.stack([key, tf.cast(number, tf.int64) + _NOISE]),
                dtype=params.dtype,
            )
            scale = tf.sqrt(learning_rate * self.noise_variance)
            noise = tf.where(self.is_noisy(number), scale * noise, 0.0)
            velocity += noise
        return params + velocity, (velocity,)


def decay(name, learning_rate, steps):
    """Returns a learning rate that falls to zero within some steps.

    Args:
        name: One of `DECAYS`.
        learning_rate: At the first step.
        steps: Number of steps.

    Returns:
        schedule: Function of the number of a step to a scalar.

    Raises:
        ValueError: If an argument is invalid.
    """
    _validation.one_of("learning_rate_decay", name, DECAYS)
    _validation.positive("learning_rate", learning_rate)
    if name == "constant":
        return lambda number: tf.constant(learning_rate)
    if name == "linear":
        return lambda number: learning_rate * (1.0 - _part(number, steps))
    return cycle(learning_rate, steps)


def cycle(learning_rate, steps):
    """Returns a learning rate that falls as a cosine, again and again.

    Args:
        learning_rate: At the first step of a cycle.
        steps: Steps of a cycle.

    Returns:
        schedule: Function of the number of a step to a scalar.

    Reference:
        - [Zhang et al., 2020](https://arxiv.org/abs/1902.03932), Eq. 1
    """
    return lambda number: (
        0.5
        * learning_rate
        * (1.0 + tf.cos(math.pi * _part(number % steps, steps)))
    )


def _part(number, steps):
    return tf.cast(number, tf.float32) / steps
