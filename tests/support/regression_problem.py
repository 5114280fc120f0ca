"""Bayesian linear regressions of random numbers."""

import numpy as np
import tensorflow as tf

from tfp_refine.math import linear_regression

# Of the noise variances.
NOISE_SHAPES = {
    "scalar": lambda num, outputs: (),
    "examples": lambda num, outputs: (num, 1),
    "outputs": lambda num, outputs: (outputs,),
    "both": lambda num, outputs: (num, outputs),
}


class Problem:
    """Inputs, targets and variances of a regression."""

    def __init__(self, rng, shape, noise="both", same_x=True):
        num, size, outputs = shape
        self.x = rng.normal(
            size=(num, size) if same_x else (outputs, *shape[:2])
        )
        self.y = 3.0 * rng.normal(size=(num, outputs))
        self.noise = np.exp(rng.normal(size=NOISE_SHAPES[noise](num, outputs)))
        self.prior = np.exp(rng.normal(size=size))

    def fit(self, dtype=tf.float64, **kwargs):
        x, y, noise, prior = (
            tf.constant(value, dtype)
            for value in (self.x, self.y, self.noise, self.prior)
        )
        return linear_regression.fit(x, y, noise, prior, **kwargs)

    def each(self):
        """Yields inputs, targets and noise variances of each output."""
        noise = np.broadcast_to(self.noise, self.y.shape)
        for index in range(self.y.shape[1]):
            x = self.x if self.x.ndim == 2 else self.x[index]
            yield x, self.y[:, index], noise[:, index]

    def precisions(self):
        """Computes the precision matrices of all outputs, `[M, D, D]`."""
        return np.stack(
            [
                x.T @ np.diag(1.0 / noise) @ x + np.diag(1.0 / self.prior)
                for x, _, noise in self.each()
            ]
        )


def assert_equal_posteriors(found, expected, rtol=1e-10, atol=1e-12):
    assert type(found) is type(expected)
    for name, value in found._asdict().items():
        np.testing.assert_allclose(
            value, getattr(expected, name), rtol=rtol, atol=atol, err_msg=name
        )
