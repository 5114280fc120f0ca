"""A Bayesian linear regression whose evidence and posterior are known."""

import keras
import numpy as np

from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import refinement
from tfp_refine import regularizers
from tfp_refine.functional import executor
from tfp_refine.refinement import engine as engine_lib
from tfp_refine.refinement import loop as loop_lib
from tfp_refine.refinement import objective as objective_lib
from tfp_refine.refinement import settings as settings_lib
from tfp_refine.refinement import state as state_lib


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
        model.compile(
            loss=losses.GaussianNLL(self.noise_scale),
            run_eagerly=True,  # for a few steps of `fit`, the fastest
        )
        loc, scale = self.mean_field()
        dense.variational_weights[0].assign(loc, scale)
        return model


def settings(**changes):
    """Makes settings of a refinement, of three members unless told."""
    return settings_lib.Settings(
        **{
            "num_members": 3,
            "variance_ratios": (0.7,),
            "steps": 10,
            "batch_size": 256,
            "learning_rate": 0.01,
            "learning_rate_decay": "constant",
            "keep_better": True,
            "num_eval_samples": 4,
            "max_eval_examples": 2048,
            "refine_deterministic": False,
            "seed": 0,
            **changes,
        }
    )


class Work:
    """A refinement, loop by loop.

    Args:
        model: The model, or several.
        x: Inputs.
        y: Targets.
        loss: As for `refine`.
        **changes: Settings.
    """

    def __init__(self, model, x, y, loss=None, **changes):
        self.settings = settings(**changes)
        self.objective = objective_lib.RefinementObjective(
            model, x, y, loss, self.settings.refine_deterministic
        )
        self.constants = (self.objective.fixed, self.objective.data)

    def state(self):
        """Returns the state before any work."""
        return state_lib.RefinementState.begin(
            self.objective.starts, self.settings
        )

    def engine(self, size=None, vectorized=False, where=None):
        """Returns an engine: here, for all members at once, unless told."""
        return engine_lib.Engine(
            self.objective,
            self.settings,
            size or len(self.settings.members),
            vectorized,
            where or executor.LocalExecutor(self.constants),
        )

    def finish(self, engine, checkpoint=None):
        """Does the rest, and returns the state, a dict of arrays."""
        saved = checkpoint and checkpoint.load()
        state = self.state()
        if saved:
            state = state_lib.RefinementState.from_arrays(
                saved, state.members.fixed
            )
        loop = loop_lib.Loop(
            engine,
            self.settings,
            self.objective.num_examples,
            state,
            checkpoint,
            lambda *_: None,
        )
        loop.save_every = loop.save_ratio = 0.0
        loop.finish()
        return loop.state.to_arrays()


def assert_same(found, expected, rounding=0.0):
    """Checks that two dicts of arrays are equal, or but for rounding."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if value.dtype.kind != "f" or not rounding:
            np.testing.assert_array_equal(found[name], value, err_msg=name)
        else:
            np.testing.assert_allclose(
                found[name], value, rounding, rounding, err_msg=name
            )


class Interrupted(Exception):
    """Raised by work that is to be interrupted."""


class InterruptedEngine:
    """An engine whose work is interrupted.

    Args:
        engine: The engine.
        results: After how many results of members' steps, if at all.

    Attributes:
        results: How many it has given.
    """

    def __init__(self, engine, results=None):
        self._engine, self._last = engine, results
        self.results = 0

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def run(self, *arguments):
        """Yields results until it is interrupted."""
        for result in self._engine.run(*arguments):
            if self.results == self._last:
                raise Interrupted
            self.results += 1
            yield result


def refine(model, x, y=None, **options):
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
