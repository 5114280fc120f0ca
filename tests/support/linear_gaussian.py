"""A Bayesian linear regression whose evidence and posterior are known."""

import keras
import numpy as np

from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import refinement
from tfp_refine import regularizers
from tfp_refine.refinement import engine as engine_lib
from tfp_refine.refinement import places


class LinearGaussian:
    """`y = x @ w + noise`, prior `N(0, prior_scale**2)`, correlated inputs.

    Args:
        num_examples: Number of examples.
        noise_scale: Standard deviation of the noise.
        prior_scale: Standard deviation of the prior.
    """

    def __init__(self, num_examples=20, noise_scale=1.0, prior_scale=1.0):
        rng = np.random.default_rng(7)
        shared = rng.normal(size=(num_examples, 1))
        self.x = shared + 0.3 * rng.normal(size=(num_examples, 2))
        self.x = self.x.astype(np.float32)
        self.y = self.x @ [[0.5], [-1.0]] + noise_scale * rng.normal(
            size=(num_examples, 1)
        )
        self.y = self.y.astype(np.float32)
        self.noise_scale = noise_scale
        self.prior_scale = prior_scale
        x, y = self.x.astype(np.float64), self.y.astype(np.float64)
        self.precision = x.T @ x / noise_scale**2 + np.eye(2) / prior_scale**2
        self.mean = np.linalg.solve(self.precision, x.T @ y) / noise_scale**2

    def log_evidence(self):
        """Computes `log p(y)`, nats."""
        x, y = self.x.astype(np.float64), self.y.astype(np.float64)
        covariance = (
            self.noise_scale**2 * np.eye(len(x)) + self.prior_scale**2 * x @ x.T
        )
        _, logdet = np.linalg.slogdet(2 * np.pi * covariance)
        return -0.5 * (logdet + (y.T @ np.linalg.solve(covariance, y)).item())

    def elbo(self, loc, scale):
        """Computes the bound of `N(loc, scale**2)` exactly, nats."""
        x, y = self.x.astype(np.float64), self.y.astype(np.float64)
        residual = np.sum((y - x @ loc) ** 2) + np.sum(x**2 @ np.square(scale))
        log_likelihood = -0.5 * residual / self.noise_scale**2 - 0.5 * len(
            x
        ) * np.log(2 * np.pi * self.noise_scale**2)
        ratio = scale / self.prior_scale
        kl = np.sum(
            0.5 * (ratio**2 + (loc / self.prior_scale) ** 2 - 1) - np.log(ratio)
        )
        return log_likelihood - kl

    def mean_field(self):
        """Returns the best mean-field posterior, `loc` and `scale [2, 1]`."""
        return self.mean, 1 / np.sqrt(np.diag(self.precision))[:, np.newaxis]

    def model(self, layer=layers.DenseLocalReparameterization):
        """Builds the model at the best mean-field posterior, compiled."""
        inputs = keras.Input((2,))
        dense = layer(
            1,
            use_bias=False,
            kernel_regularizer=regularizers.GaussianKL(self.prior_scale),
            num_train_examples=len(self.x),
        )
        model = keras.Model(inputs, dense(inputs))
        model.compile(loss=losses.GaussianNLL(self.noise_scale))
        loc, scale = self.mean_field()
        dense.variational_weights[0].assign(loc, scale)
        return model


def engine(problem, settings):
    """Makes the engine of a refinement, here, for all members at once."""
    constants = (problem.others, problem.data)
    return engine_lib.Engine(
        problem, settings, len(settings.members), False, places.Here(constants)
    )


def refine(model, x, y, **options):
    """Refines a model quickly, with a fixed seed, unless told otherwise."""
    return refinement.refine(
        model,
        x,
        y,
        **{
            "num_members": 3,
            "steps": 12,
            "variance_ratios": (0.7, 0.5),
            "seed": 5,
            "verbose": 0,
            **options,
        },
    )


def params(ensemble):
    """Returns the members' means and scales, `[M, 2, W]`."""
    return np.stack(ensemble.posterior, axis=1)
