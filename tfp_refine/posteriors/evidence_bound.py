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
        training_data: `(inputs, targets)`, or with weights of examples
            `(inputs, targets, weights)`, `[N, ...]` each: inputs (perhaps
            nested) as `view.outputs` takes them, such as features, and targets
            as `likelihood.log_prob` does; or a `streams.Stream` of them; or
            `None` where they are not known.
    """

    training_data: Any = None
    # Attributes of the family.
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
            x: Training inputs, `[N, ...]` (or nested), or batches of `(x, y)`
                or `(x, y, sample_weight)`, such as a `tf.data.Dataset`, a
                `keras.utils.PyDataset` or a generator. Batches are read into
                memory if they fit, as by `fit`.
            y: Class numbers `[N]` or one-hot rows `[N, C]`, labels 0 and 1
                `[N, C]` of "multilabel", or regression targets `[N, C]` (`[N]`
                if `C` is 1).
            sample_weight: Weights, `[N]`: the likelihood of an example counts
                as often as its weight says. `None` for batches.
            class_weight: Weights by class number, a dict, in place of
                `sample_weight`; 1 for those left out.
            batch_size: Examples that the model is called on at a time.

        Returns:
            self: This object, with its `training_data`.

        Raises:
            ValueError: If data are invalid or do not fit the model.
        """
        self._check_ready()
        self.training_data = self.data(
            x, y, sample_weight, class_weight, batch_size
        )
        return self

    def data(self, x, y, sample_weight=None, class_weight=None, batch_size=256):
        """Reads data, and returns them as `training_data` are."""
        _validation.positive_integer("batch_size", batch_size)
        examples, _ = functional.streams.examples(
            x,
            y,
            sample_weight,
            class_weight,
            fit=self._fit_inputs,
            check=lambda block: check_examples(
                block, self.likelihood, self.view
            ),
        )
        return data_of(
            examples, self.likelihood, self.view, self.fixed, batch_size
        )

    def _fit_inputs(self, block):
        x, *others = block
        return (self.view.fit_inputs(x), *others)

    def check_data(self, held=False):
        """Raises a `ValueError` unless fitted, with training data.

        Also if these must be `held` in memory, and are not.
        """
        self._check_ready()
        if self.training_data is None:
            raise ValueError(
                "Training data are not saved with a posterior: give them "
                "again, `set_data(x, y)`."
            )
        if held and isinstance(self.training_data, functional.streams.Stream):
            raise ValueError(
                "Training data must fit in memory here: give fewer, "
                "`set_data(x, y)`. Received: "
                f"{self.training_data.num_examples} examples of "
                f"{self.training_data.bytes_per_example} bytes each"
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
        return bounds([self], num_samples, seed)[0]


def bounds(posteriors, num_samples, seed=0):
    """Estimates bounds as `EvidenceBound.elbo` does, from the same draws.

    `posteriors` share all but their bijectors. Returns a list of arrays `[S]`.
    """
    first = posteriors[0]
    z = np.random.default_rng(functional.seeds.check(seed)).standard_normal(
        (num_samples, first.view.size)
    )
    pushed = [push(one.bijector, tf.constant(z)) for one in posteriors]
    theta, log_q = (tf.concat(part, 0) for part in zip(*pushed, strict=True))
    elbo = gaussian.centered_log_prob(theta, first.prior_precision) - log_q

    def log_likelihood(theta, fixed, inputs, targets, *weights):
        outputs = first.view.outputs(theta, inputs, fixed)
        return functional.likelihoods.weighed_sum(
            first.likelihood.log_prob(targets, outputs), *weights
        )

    data = first.training_data
    num_parts = len(functional.streams.specs(data))
    program = functional.Program(
        log_likelihood, varying=(False, False, *[True] * num_parts)
    )
    size = max(1, _MAX_NUMBERS // (len(theta) * first.view.num_outputs))
    size = min(size, _MAX_ROWS)
    for _, block in functional.streams.blocks(data, size):
        elbo += program(theta, list(first.fixed), *block)
    return np.split(elbo.numpy(), len(posteriors))


def check_examples(block, likelihood, view):
    """Raises a `ValueError` if targets or weights do not fit a likelihood."""
    x, y, *weights = block
    view.find_positions(x)
    if view.positions:
        _positions(x, y, weights, likelihood, view)
        return
    likelihood.targets(y, view.num_outputs)
    for weight in weights:
        functional.example_weights.one_each(weight)


def data_of(examples, likelihood, view, fixed, batch_size, on_batch=None):
    """Returns `EvidenceBound.training_data` of examples, held or a `Stream`.

    Positions become examples, without those that are masked, or have a weight
    of 0. A stream whose inputs are small as the view takes them, as features of
    images are, is held. Of others they are computed anew in each pass.
    `on_batch` is called with the number of examples done.
    """
    is_stream = isinstance(examples, functional.streams.Stream)
    if is_stream and view.positions:
        raise ValueError(
            "Data of a network with outputs at each position must fit in "
            "memory. Received: a source of more than "
            f"{functional.streams.HELD_BYTES / 2**30:g} GiB"
        )

    def convert(x, y, *weights):
        inputs = view.inputs(
            x, batch_size, None if is_stream else on_batch, fixed
        )
        if view.positions:
            rows, *others = _positions(x, y, weights, likelihood, view)
            return inputs.reshape(-1, inputs.shape[-1])[rows], *others
        return (
            inputs,
            likelihood.targets(y, view.num_outputs),
            *(np.asarray(weight, np.float64) for weight in weights),
        )

    if is_stream:
        return examples.map(convert).hold(on_batch)
    return convert(*examples)


def _positions(x, y, weights, likelihood, view):
    """Finds the positions that count, of all examples, one after another.

    Returns their numbers, their targets, and their weights if there are any.
    """
    y = np.asarray(y)
    lead = (functional.data.num_examples(x), *view.positions)
    if y.shape[: len(lead)] != lead:
        raise ValueError(
            f"`y` must have a target for each position, {lead}, as the outputs "
            f"of the model '{view.model.name}'. Received: shape {y.shape}"
        )
    counts = view.mask(x) if view.has_mask else np.ones(lead, bool)
    found = []
    for weight in weights:
        weight = np.asarray(weight, np.float64)
        if weight.shape not in (lead, lead[:1]):
            raise ValueError(
                "`sample_weight` must be one number for each example, "
                f"{lead[:1]}, or each position, {lead}. Received: shape "
                f"{weight.shape}"
            )
        missing = len(lead) - weight.ndim
        weight = weight.reshape(*weight.shape, *[1] * missing)
        found.append(np.broadcast_to(weight, lead))
        counts = counts & (weight > 0.0)
    rows = np.flatnonzero(counts)
    if not len(rows):
        raise ValueError(
            "Positions must not all be masked, or have a weight of 0. "
            f"Received: {counts.size} positions, all of which are"
        )
    targets = y.reshape(-1, *y.shape[len(lead) :])[rows]
    return (
        rows,
        likelihood.targets(targets, view.num_outputs),
        *(weight.reshape(-1)[rows] for weight in found),
    )


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
