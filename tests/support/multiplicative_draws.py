"""Draws of outputs of layers with multipliers, and their moments."""

import keras
import numpy as np
import tensorflow as tf

from tests.support import statistics

NUM_DRAWS = 20000
# Draws of the multipliers, whose moments have no closed form.
NUM_MULTIPLIERS = 200000


class Moments:
    """Moments of an example's outputs, given those of the multipliers.

    Args:
        layer: Layer with multipliers.
        loadings: Part of a multiplier in each output, `[N, D]`.
        offset: Part that does not depend on multipliers, `[N]`.
        noise_variance: Variance given multipliers, `[N]`; or, if outputs
            share noise, covariance, `[N, N]`.
    """

    def __init__(self, layer, loadings, offset, noise_variance):
        z, _ = layer.variational_weights[0].draw_z(
            (NUM_MULTIPLIERS,), keras.random.SeedGenerator(5)
        )
        z = np.asarray(z, "float64")
        if np.ndim(noise_variance) == 1:
            noise_variance = np.diag(noise_variance)
        self.mean = loadings @ np.mean(z, axis=0) + offset
        self.covariance = (
            loadings @ np.atleast_2d(np.cov(z.T)) @ loadings.T + noise_variance
        )

    def standardize(self, draws):
        """Returns draws less their mean, over their standard deviation."""
        return (draws - self.mean) / np.sqrt(np.diag(self.covariance))

    def check(self, draws, resolves=0.2):
        """Asserts that draws have the mean, the variances, the correlations.

        Args:
            draws: Independent ones, `[S, N]`.
            resolves: Least error that must be seen, of standardized draws.
        """
        z = self.standardize(draws)
        # The expectation has an error, too.
        wider = np.sqrt(1.0 + len(draws) / NUM_MULTIPLIERS)
        statistics.assert_mean(z, 0.0, wider, resolves=resolves)
        products = z[:, :, None] * z[:, None, :]
        stddev = np.sqrt(np.diag(self.covariance))
        statistics.assert_mean(
            products,
            self.covariance / (stddev[:, None] * stddev),
            wider * np.std(products, axis=0),
            resolves=2 * resolves,
        )

    def check_examples_are_independent(self, draws):
        """Asserts that of each two examples in a row.

        Args:
            draws: Of a batch of equal examples, `[S, N]`.
        """
        z = self.standardize(draws)
        first, second = z[::2, :, None], z[1::2, None, :]
        statistics.assert_mean(first * second, 0.0, resolves=0.3)
        # Nor do they share the size of anything.
        squares = (first**2 - 1.0) * (second**2 - 1.0)
        statistics.assert_mean(squares, 0.0, resolves=1.0)


def repeat(draw, num):
    """Calls a function many times.

    Args:
        draw: Function of no arguments that returns a tensor.
        num: Number of calls.

    Returns:
        draws: `[num, ...]`, float64.
    """
    like = draw()

    @tf.function(autograph=False)
    def run():
        return tf.map_fn(
            lambda _: draw(), tf.range(num), fn_output_signature=like.dtype
        )

    return np.asarray(run(), "float64")
