"""Training of all members of an ensemble, in one compiled program."""

import os
from typing import NamedTuple

import tensorflow as tf

from tfp_refine import functional

# Random streams of a member, below the seed.
_SHUFFLE, _NOISE, _RESAMPLE = range(3)


class Schedule(NamedTuple):
    """How long, and how fast, members are trained.

    Attributes:
        steps: Optimization steps.
        batch_size: Examples in a step.
        learning_rate: Function of the number of a step, an integer scalar, to
            a scalar.
        optimizer: `optimizers.Adam` or `optimizers.Momentum`.
    """

    steps: int
    batch_size: int
    learning_rate: object
    optimizer: object


class MemberState(NamedTuple):
    """What training changes of members, stacked, `[M, ...]`.

    Attributes:
        params: Trainable weights, `[M, P]`.
        others: Other weights, `[M, V]`.
        optimizer: State of the optimizer, tensors `[M, P]`.
    """

    params: tf.Tensor
    others: tf.Tensor
    optimizer: tuple


class MemberTraining:
    """Trains members, each on batches of its own.

    Args:
        weights: `ModelWeights` of the model.
        loss: What `functional.example_loss.resolve` returned.
        x: Inputs, `[N, ...]` (or nested).
        y: Targets, `[N, ...]`.
        schedule: `Schedule`.
        seed: Integer.
        bootstrap: Whether each member has examples of its own, drawn with
            replacement.
        perturbation: Largest change of the inputs by adversarial training,
            broadcastable to an example; `None` without it.

    Attributes:
        program: Function of a `MemberState`, members' keys `[M]` and the first
            and last step to a `MemberState` and mean losses `[M]`.
    """

    def __init__(
        self, weights, loss, x, y, schedule, seed, bootstrap, perturbation
    ):
        self._weights, self._loss = weights, loss
        self._x = tf.nest.map_structure(tf.convert_to_tensor, x)
        self._y = tf.convert_to_tensor(y)
        self._count = int(self._y.shape[0])
        self._schedule = schedule
        self._batch_size = min(schedule.batch_size, self._count)
        self._per_epoch = self._count // self._batch_size
        self._seed = seed
        self._bootstrap = bootstrap
        self._perturbation = perturbation
        self.program = functional.Program(self._run)

    def keys(self, num_members):
        """Returns the keys of the members' random streams, `[M, 3]`."""
        return tf.constant(
            [
                [
                    functional.seeds.key(self._seed, member, stream)
                    for stream in (_SHUFFLE, _NOISE, _RESAMPLE)
                ]
                for member in range(num_members)
            ],
            tf.int64,
        )

    def _run(self, state, keys, begin, end):
        def member(arguments):
            state, keys = arguments
            return self._train_member(state, keys, begin, end)

        # Each member on a core of its own, for all steps.
        return tf.map_fn(
            member,
            (state, keys),
            fn_output_signature=(
                tf.nest.map_structure(
                    lambda leaf: tf.TensorSpec(leaf.shape[1:], leaf.dtype),
                    state,
                ),
                tf.TensorSpec([], tf.float64),
            ),
            parallel_iterations=os.cpu_count(),
        )

    def _train_member(self, state, keys, begin, end):
        rows = tf.range(self._count)
        if self._bootstrap:
            rows = tf.random.stateless_uniform(
                [self._count],
                _pair(keys[_RESAMPLE], 0),
                maxval=self._count,
                dtype=tf.int32,
            )

        def order_of(epoch):
            return tf.random.experimental.stateless_shuffle(
                rows, _pair(keys[_SHUFFLE], epoch)
            )

        def step(number, order, state, total):
            index = number % self._per_epoch
            order = tf.cond(
                index == 0,
                lambda: order_of(number // self._per_epoch),
                lambda: order,
            )
            batch = order[index * self._batch_size :][: self._batch_size]
            batch.set_shape([self._batch_size])
            state, loss = self._step(state, batch, keys[_NOISE], number)
            return number + 1, order, state, total + tf.cast(loss, total.dtype)

        _, _, state, total = tf.while_loop(
            lambda number, *_: number < end,
            step,
            (
                begin,
                order_of(begin // self._per_epoch),
                state,
                tf.constant(0.0, tf.float64),
            ),
            parallel_iterations=1,
        )
        return state, total / tf.cast(end - begin, tf.float64)

    def _step(self, state, batch, key, number):
        x = tf.nest.map_structure(lambda v: tf.gather(v, batch), self._x)
        y = tf.gather(self._y, batch)
        params = state.params
        with tf.GradientTape() as tape:
            tape.watch(params)
            nll, others, penalty = self._loss_of(
                x, y, params, state.others, key, number
            )
            if self._perturbation is not None:
                moved = self._perturbed(x, y, state, key, number)
                other_nll, _, _ = self._loss_of(
                    moved, y, params, state.others, key, number
                )
                nll = 0.5 * (nll + other_nll)
            loss = nll + penalty
        schedule = self._schedule
        params, optimizer = schedule.optimizer.step(
            params,
            tape.gradient(loss, params),
            state.optimizer,
            number,
            tf.cast(schedule.learning_rate(number), params.dtype),
            key,
        )
        return MemberState(params, others, optimizer), loss

    def _perturbed(self, x, y, state, key, number):
        """Moves inputs where the loss rises (fast gradient sign)."""
        with tf.GradientTape() as tape:
            tape.watch(x)
            nll, _, _ = self._loss_of(
                x, y, state.params, state.others, key, number
            )
        gradient = tape.gradient(nll, x)
        return tf.stop_gradient(x + self._perturbation * tf.sign(gradient))

    def _loss_of(self, x, y, params, others, key, number):
        outputs, others, penalty = self._weights.outputs(
            x, params, others, key, number, training=True
        )
        nll = tf.reduce_mean(
            functional.example_loss.negative_log_likelihood(
                self._loss, y, outputs
            )
        )
        return tf.cast(nll, params.dtype), others, penalty


def _pair(key, number):
    return tf.stack([key, tf.cast(number, tf.int64)])
