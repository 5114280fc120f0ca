"""The bound on the evidence, of posteriors that know likelihood and prior."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.math import gaussian

# Numbers of outputs that are held at once: 64 MiB of float64.
_MAX_NUMBERS = 2**23
_MAX_ROWS = 1024
_LOG_TWO_PI = float(np.log(2.0 * np.pi))


class EvidenceBound:
    """Bound on the evidence of a posterior with a density.

    The prior is `N(0, I / prior_precision)`. A subclass, also of `Posterior`,
    has a `view` with `outputs` and values of its `fixed` weights.

    Attributes:
        bijector: `tfb.Bijector` from standard normal draws to weights.
        likelihood: Object of `functional.likelihoods`.
        prior_precision: 1 / variance of the prior of each weight.
        inputs: Training inputs as `view.outputs` takes them, `[N, ...]` (or
            nested), such as features; `None` where they are not known.
        targets: Training targets as `likelihood.log_prob` takes them, array
            `[N, ...]`; `None` likewise.
        weights: How often the likelihood of each example counts, array `[N]`;
            `None` if it does once.
    """

    inputs: Any = None
    targets: Any = None
    weights: Any = None
    # What the family has.
    view: Any
    fixed: Any
    bijector: Any
    likelihood: Any
    prior_precision: Any
    _check_ready: Any

    def set_data(
        self,
        x,
        y=None,
        *,
        sample_weight=None,
        class_weight: dict[int, float] | None = None,
        batch_size: int = 256,
    ):
        """Gives training data again to a posterior that was loaded.

        Args:
            x: Training inputs, `[N, ...]` (or nested), or a finite, batched
                `tf.data.Dataset` of `(x, y)` or `(x, y, sample_weight)`, which
                is read once into memory.
            y: Class numbers `[N]` or one-hot rows `[N, C]`, labels 0 and 1
                `[N, C]` of "multilabel", or regression targets `[N, C]` (`[N]`
                if `C` is 1).
            sample_weight: Weights, `[N]`: the likelihood of an example counts
                as often as its weight says.
            class_weight: Weights by class number, a dict, in place of
                `sample_weight`; 1 for those left out.
            batch_size: Examples that the model is called on at a time.

        Returns:
            self: This object, with its `inputs`, `targets` and `weights`.

        Raises:
            ValueError: If data are invalid or do not fit the model.
        """
        self._check_ready()
        self.inputs, self.targets, self.weights = self.data(
            x, y, sample_weight, class_weight, batch_size
        )
        return self

    def data(self, x, y, sample_weight=None, class_weight=None, batch_size=256):
        """Returns inputs as the view takes them, targets and weights.

        They are `[N, ...]`, and the weights `None` if there are none.
        """
        _validation.positive_integer("batch_size", batch_size)
        x, y, weights, _ = functional.data.weighted(
            x, y, sample_weight, class_weight
        )
        x = self.view.fit_inputs(x)
        targets = self.likelihood.targets(y, self.view.num_outputs)
        inputs = self.view.inputs(x, batch_size, fixed=self.fixed)
        if weights is not None:
            weights = np.asarray(weights, np.float64)
        return inputs, targets, weights

    @property
    def training_data(self):
        """The inputs and targets, and weights if there are any, a tuple."""
        found = self.inputs, self.targets
        return found if self.weights is None else (*found, self.weights)

    def check_data(self):
        """Raises a `ValueError` unless fitted, with training data."""
        self._check_ready()
        if self.targets is None:
            raise ValueError(
                "Training data are not saved with a posterior: give them "
                "again, `set_data(x, y)`."
            )

    def elbo(
        self, num_samples: int = 100, *, seed: int | None = 0
    ) -> np.ndarray:
        """Estimates the bound on the evidence, from all training data.

        Args:
            num_samples: `S`, draws of the weights.
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
            (num_samples, self.view.size)
        )
        theta, log_q = push(self.bijector, tf.constant(z))
        elbo = gaussian.centered_log_prob(theta, self.prior_precision) - log_q

        def log_likelihood(theta, fixed, inputs, targets, *weights):
            outputs = self.view.outputs(theta, inputs, fixed)
            return functional.likelihoods.weighed_sum(
                self.likelihood.log_prob(targets, outputs), *weights
            )

        data = self.training_data
        program = functional.Program(
            log_likelihood, varying=(False, False, *[True] * len(data))
        )
        size = max(1, _MAX_NUMBERS // (num_samples * self.view.num_outputs))
        size = min(size, _MAX_ROWS)
        for begin in range(0, len(self.targets), size):
            block = functional.data.take(data, slice(begin, begin + size))
            elbo += program(theta, list(self.fixed), *block)
        return elbo.numpy()


def push(bijector, z):
    """Makes weights `theta [S, P]` of standard normal draws, `[S, P]`.

    Also returns their log density, nats, `[S]`.
    """
    log_q = -0.5 * tf.reduce_sum(tf.square(z) + _LOG_TWO_PI, axis=-1)
    theta = z
    for part in reversed(getattr(bijector, "bijectors", [bijector])):
        if hasattr(part, "forward_and_log_det"):  # in one go: a third faster
            theta, log_det = part.forward_and_log_det(theta)
        else:
            log_det = part.forward_log_det_jacobian(theta, event_ndims=1)
            theta = part.forward(theta)
        log_q -= log_det
    return theta, log_q
