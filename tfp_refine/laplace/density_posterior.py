"""Posteriors of weights whose density is known."""

import abc
from typing import ClassVar

import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors

# Numbers of draws, and of outputs, that are held at once: 64 MiB of float64.
_MAX_NUMBERS = 2**23
_MAX_ROWS = 1024


class DensityPosterior(posteriors.WeightPosterior):
    """Distribution of weights made of standard normal draws.

    A subclass says how.

    Attributes:
        inputs: What the network takes of the training inputs, `[N, ...]` (or
            nested): features for a last layer. `None` if they are not known.
        targets: Training targets, array `[N, ...]`; `None` likewise.
    """

    # By name, for files.
    classes: ClassVar = {}

    inputs = targets = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.classes[cls.__name__] = cls

    @property
    @abc.abstractmethod
    def prior_precision(self):
        """1 / variance of the prior of each weight."""

    @abc.abstractmethod
    def data(self, x, y=None, batch_size=256, verbose=0):
        """Checks data, and computes what the network takes of them.

        Args:
            x: Training inputs, `[N, ...]` (or nested), or a `tf.data.Dataset`
                of `(x, y)`, batched, which is read once into memory.
            y: Class numbers `[N]` or one-hot rows `[N, C]`, or regression
                targets `[N, C]` (`[N]` if `C` is 1).
            batch_size: Examples that the model is called on at a time.
                Defaults to `256`.
            verbose: 0 is silent, 1 a progress bar, 2 a line at the end.

        Returns:
            inputs: What `network.outputs` takes, `[N, ...]` (or nested).
            targets: What `likelihood.log_prob` takes, array `[N, ...]`.

        Raises:
            ValueError: If data are invalid or do not fit the model.
        """

    def set_data(self, x, y=None, batch_size=256):
        """Gives training data again to a posterior that was loaded.

        Args:
            x: As for `data`.
            y: As for `data`.
            batch_size: As for `data`.

        Returns:
            self: This object, with its `inputs` and `targets`.

        Raises:
            ValueError: As for `data`.
        """
        self.inputs, self.targets = self.data(x, y, batch_size)
        return self

    @abc.abstractmethod
    def forward(self, z):
        """Makes weights of standard normal draws.

        Args:
            z: Tensor, float64, `[S, D]`.

        Returns:
            theta: Weights, `[S, D]`.
            log_q: Their log density, nats, `[S]`.
        """

    def elbo(self, num_samples=100, seed=0):
        """Estimates the bound on the evidence, from all training data.

        Args:
            num_samples: Draws of the weights. Defaults to `100`.
            seed: Integer that fixes them; fresh ones if `None`.

        Returns:
            elbo: `E_q[log p(y | theta) + log p(theta) - log q(theta)]`, nats,
                float64 array `[S]`, a value for each draw: their mean is the
                estimate.

        Raises:
            ValueError: If an argument is invalid, or data are not known.
        """
        _validation.positive_integer("num_samples", num_samples)
        self.check_data()
        z = np.random.default_rng(functional.seeds.check(seed)).standard_normal(
            (num_samples, self.network.size)
        )
        theta, log_q = self.forward(tf.constant(z))
        elbo = posteriors.log_prior(theta, self.prior_precision) - log_q
        program = functional.Program(
            lambda theta, inputs, targets: tf.reduce_sum(
                self.likelihood.log_prob(
                    targets, self.network.outputs(theta, inputs)
                ),
                axis=-1,
            ),
            varying=(False, True, True),
        )
        size = max(1, _MAX_NUMBERS // (num_samples * self.network.num_outputs))
        size = min(size, _MAX_ROWS)
        for begin in range(0, len(self.targets), size):
            rows = slice(begin, begin + size)
            elbo += program(
                theta, posteriors.take(self.inputs, rows), self.targets[rows]
            )
        return elbo.numpy()

    def check_data(self):
        """Checks that training data are known.

        Raises:
            ValueError: If they are not.
        """
        if self.targets is None:
            raise ValueError(
                "Training data are not saved with a posterior: give them "
                "again, `set_data(x, y)`."
            )

    def _sampler(self, seed):
        rng = np.random.default_rng(seed)
        size = self.network.size
        return lambda number: self.forward(
            tf.constant(rng.standard_normal((number, size)))
        )[0].numpy()
