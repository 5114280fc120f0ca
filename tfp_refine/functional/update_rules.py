"""Update rules and learning rates of members that are trained together."""

import math
from typing import NamedTuple

import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.math import adam
from tfp_refine.math import philox

DECAYS = ("constant", "linear", "cosine")
# The stream of the noise, apart from that of the layers.
_NOISE = 2**40


class Adam(NamedTuple):
    """Adam, as Keras has it."""

    def zeros(self, params):
        """Returns the slots before the first step, zeros like `params`."""
        zeros = tf.nest.map_structure(tf.zeros_like, params)
        return (zeros, zeros)

    def step(self, params, gradient, slots, number, learning_rate, key):
        """Returns `params` (or nested) and slots after a step.

        `number` steps were taken before; `key` is of the member's random
        stream.
        """
        del key
        leaves = [
            adam.step(
                value, slope, adam.AdamState(*moments), number, learning_rate
            )
            for value, slope, *moments in zip(
                *map(tf.nest.flatten, (params, gradient, *slots)), strict=True
            )
        ]
        values, moments = zip(*leaves, strict=True)
        return tf.nest.pack_sequence_as(params, values), tuple(
            tf.nest.pack_sequence_as(params, slot)
            for slot in zip(*moments, strict=True)
        )


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
        """Returns the slots before the first step, as `Adam`."""
        return (tf.zeros_like(params),)

    def step(self, params, gradient, slots, number, learning_rate, key):
        """Takes a step, as `Adam`."""
        (velocity,) = slots
        velocity = self.momentum * velocity - learning_rate * gradient
        if self.noise_variance:
            noise = philox.normal(
                tf.shape(params),
                tf.stack([key, tf.cast(number, tf.int64) + _NOISE]),
                dtype=params.dtype,
            )
            scale = tf.sqrt(learning_rate * self.noise_variance)
            noise = tf.where(self.is_noisy(number), scale * noise, 0.0)
            velocity += noise
        return params + velocity, (velocity,)


def decay(name, steps):
    """Returns a factor of the learning rate, 1 at first and 0 after `steps`.

    It is a function of the number of a step; `None` for a constant.
    """
    _validation.one_of("learning_rate_decay", name, DECAYS)
    if name == "constant":
        return None
    if name == "linear":
        return lambda number: 1.0 - _part(number, steps)
    return lambda number: _cosine(number, steps)


def cycle(steps):
    """Returns a factor that falls from 1 to 0 as a cosine, again and again.

    It is a function of the number of a step (Zhang et al., 2020, Eq. 1).
    """
    return lambda number: _cosine(number % steps, steps)


def _cosine(number, steps):
    return 0.5 * (1.0 + tf.cos(math.pi * _part(number, steps)))


def _part(number, steps):
    return tf.cast(number, tf.float32) / steps
