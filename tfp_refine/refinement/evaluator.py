"""The bound of each member, estimated in a compiled program."""

import math

import keras
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.refinement import member
from tfp_refine.refinement import members

# Rows that are computed at a time, fewer of inputs with many numbers.
_BLOCK = 2048
_BLOCK_SIZE = 2**21


class Evaluator:
    """Estimates the bound of each member, but for its cost.

    Args:
        problem: `Problem`.
        vectorized: As for `members.map_members`.

    Attributes:
        program: `functional.Program` of: a stacked `MemberState`; the keys of
            the members' random streams `[M]`, which fix the draws; indices of
            the training examples to use `[n]`, int32; the number of weight
            draws, int64; the problem's `others` and `data`. It returns the
            log likelihood of all `N` examples, expected under the posterior,
            and the KL divergence of the posterior from its conditional prior,
            both nats, float64, `[M]`.
    """

    def __init__(self, problem, vectorized=False):
        self._problem = problem
        self._vectorized = vectorized
        self.program = functional.Program(
            self._trace, varying=(True, True, True, False, False, False)
        )

    def _trace(self, state, keys, rows, num_samples, others, data):
        def one(arguments):
            state, key = arguments
            log_likelihood = expected_log_likelihood(
                self._problem,
                state.params,
                others,
                data,
                rows,
                key,
                num_samples,
            )
            kl = member.kl_divergence(
                tf.cast(state.params, tf.float64),
                tf.cast(state.prior_loc, tf.float64),
                tf.cast(state.prior_scale, tf.float64),
            )
            return log_likelihood, kl

        return members.map_members(
            one,
            (state, keys),
            like=(state.cost, state.cost),
            vectorized=self._vectorized,
        )


def expected_log_likelihood(
    likelihood, params, others, data, rows, key, num_samples
):
    """Estimates the expected log likelihood, in a trace.

    Args:
        likelihood: `Likelihood`.
        params: What its `forward` takes.
        others: What its `forward` takes.
        data: Its data.
        rows: Indices of the training examples to use, `[n]`, int32.
        key: Key of the random stream, int64, a scalar.
        num_samples: Weight draws, int64, a scalar.

    Returns:
        log_likelihood: Of all `N` examples, nats, float64, a scalar.
    """
    num_rows = tf.shape(rows, tf.int64)[0]
    size = _block_rows(data[0])
    blocks = (num_rows + size - 1) // size

    def body(index, total):
        first = (index % blocks) * size
        block = rows[first : first + size]
        x, y = keras.tree.map_structure(
            lambda value: tf.gather(value, block), data
        )
        outputs = likelihood.forward(x, params, others, key, index)
        nll = functional.example_loss.negative_log_likelihood(
            likelihood.loss, y, outputs
        )
        nll = tf.cast(nll, tf.float64)
        if nll.shape.rank == 0:  # a mean over the block
            nll = nll * tf.cast(tf.shape(block)[0], tf.float64)
        return index + 1, total - tf.reduce_sum(nll)

    _, total = tf.while_loop(
        lambda index, total: index < num_samples * blocks,
        body,
        (tf.constant(0, tf.int64), tf.zeros([], tf.float64)),
        parallel_iterations=1,
    )
    per_example = total / tf.cast(num_samples * num_rows, tf.float64)
    return likelihood.num_examples * per_example


def _block_rows(x):
    """Returns how many rows of `x` are computed at a time."""
    numbers = sum(math.prod(leaf.shape[1:]) for leaf in keras.tree.flatten(x))
    return max(1, min(_BLOCK, _BLOCK_SIZE // max(1, numbers)))
