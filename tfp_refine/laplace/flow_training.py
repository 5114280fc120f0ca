"""Training of flows on cached inputs, in one compiled program."""

import math
from typing import NamedTuple

import keras
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.math import adam

# Segments between which Python shows how far it is.
_SEGMENTS = 20
# Random streams, below the seed.
INIT, SHUFFLE, NOISE, ELBO = range(4)


class Schedule(NamedTuple):
    """How long, and how fast, flows are trained.

    Attributes:
        epochs: Passes over the data.
        batch_size: Examples in a step.
        learning_rate: Adam's at the first step; it falls to 0 as a cosine.
        num_samples: Draws of the weights in a step.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    num_samples: int


class Trainer:
    """Maximizes a flow's bound on the evidence by stochastic gradients.

    Args:
        log_joint: Function of weights `[S, D]`, inputs and targets of a batch
            and the factor that scales its likelihood up, to `[S]`, nats.
        forward: Function of parameters and standard normal draws `[S, D]` to
            weights `[S, D]` and their log density `[S]`.
        inputs: `[N, ...]` (or nested).
        targets: `[N, ...]`.
        schedule: `Schedule`.
        seed: Integer.
    """

    def __init__(self, log_joint, forward, inputs, targets, schedule, seed):
        self._log_joint = log_joint
        self._forward = forward
        self._inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
        self._targets = tf.convert_to_tensor(targets)
        self._num_examples = len(targets)
        self._batch_size = min(schedule.batch_size, self._num_examples)
        self._per_epoch = self._num_examples // self._batch_size
        self._schedule = schedule
        self._seed = seed
        self.program = functional.Program(self._segment)

    def train(self, params, size, verbose):
        """Trains.

        Args:
            params: Dict of arrays.
            size: `D`.
            verbose: 0 is silent, 1 a progress bar, 2 a line at the end.

        Returns:
            params: Dict of arrays.
            trace: Mean bound of the steps of each segment, nats, list.

        Raises:
            FloatingPointError: If the bound is not finite.
        """
        epochs = self._schedule.epochs
        per_segment = max(1, math.ceil(epochs / _SEGMENTS))
        moments = {
            name: adam.AdamState(tf.zeros_like(v), tf.zeros_like(v))
            for name, v in params.items()
        }
        self._size = size
        bar = keras.utils.Progbar(epochs, verbose=verbose, unit_name="epoch")
        trace = []
        for begin in range(0, epochs, per_segment):
            end = min(begin + per_segment, epochs)
            params, moments, elbo = self.program(
                params, moments, tf.constant(begin), tf.constant(end)
            )
            elbo = float(elbo)
            if not math.isfinite(elbo):
                raise FloatingPointError(
                    f"The bound became {elbo} between epochs {begin} and {end} "
                    "of the refinement. A lower learning rate may help."
                )
            trace.append(elbo)
            bar.update(end, [("elbo", elbo)])
        return {name: v.numpy() for name, v in params.items()}, trace

    def _segment(self, params, moments, begin, end):
        """Runs the epochs from `begin` to `end`."""

        def epoch(number, params, moments, total):
            order = tf.random.experimental.stateless_shuffle(
                tf.range(self._num_examples), self._key(SHUFFLE, number)
            )
            _, params, moments, total = tf.while_loop(
                lambda index, *_: index < self._per_epoch,
                lambda index, *state: (
                    index + 1,
                    *self._step(number, index, order, *state),
                ),
                (tf.constant(0), params, moments, total),
                parallel_iterations=1,
            )
            return number + 1, params, moments, total

        _, params, moments, total = tf.while_loop(
            lambda number, *_: number < end,
            epoch,
            (begin, params, moments, tf.constant(0.0, tf.float64)),
            parallel_iterations=1,
        )
        steps = tf.cast((end - begin) * self._per_epoch, tf.float64)
        return params, moments, total / steps

    def _step(self, epoch, index, order, params, moments, total):
        size = self._batch_size
        rows = order[index * size : (index + 1) * size]
        rows.set_shape([size])
        inputs = tf.nest.map_structure(
            lambda leaf: tf.gather(leaf, rows), self._inputs
        )
        count = epoch * self._per_epoch + index
        dtype = next(iter(params.values())).dtype
        z = tf.random.stateless_normal(
            [self._schedule.num_samples, self._size],
            self._key(NOISE, count),
            dtype=dtype,
        )
        with tf.GradientTape() as tape:
            tape.watch(params)
            theta, log_q = self._forward(params, z)
            elbo = tf.reduce_mean(
                self._log_joint(
                    theta,
                    inputs,
                    tf.gather(self._targets, rows),
                    self._num_examples / size,
                )
                - log_q
            )
            # For each example, so that Adam's constant does not matter.
            loss = -elbo / self._num_examples
        gradients = tape.gradient(loss, params)
        learning_rate = self._learning_rate(count)
        new_params, new_moments = {}, {}
        for name, value in params.items():
            new_params[name], new_moments[name] = adam.step(
                value, gradients[name], moments[name], count, learning_rate
            )
        return new_params, new_moments, total + tf.cast(elbo, tf.float64)

    def _learning_rate(self, count):
        """Computes Adam's learning rate, a cosine that ends at 0."""
        steps = self._schedule.epochs * self._per_epoch
        progress = tf.cast(count, tf.float32) / steps
        return (
            0.5
            * self._schedule.learning_rate
            * (1.0 + tf.cos(math.pi * progress))
        )

    def _key(self, stream, number):
        key = functional.seeds.key(self._seed, stream)
        return tf.stack([tf.constant(key, tf.int64), tf.cast(number, tf.int64)])
