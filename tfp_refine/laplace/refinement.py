"""Refinement of Laplace's approximation by a normalizing flow."""

import copy
import dataclasses
import math

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_refine import _validation
from tfp_refine import bijectors
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.functional import streams
from tfp_refine.functional import train
from tfp_refine.functional import update_rules
from tfp_refine.math import gaussian
from tfp_refine.math import philox
from tfp_refine.posteriors import evidence_bound
from tfp_refine.posteriors import flow as flow_lib

KINDS = {"radial": bijectors.Radial, "planar": bijectors.Planar}
SPACES = ("whitened", "paper")
BASES = ("laplace", "standard_normal")
# Defaults of `refine`, by the space of the flows.
_NUM_SAMPLES = {"paper": 1, "whitened": 16}
_LEARNING_RATES = {"paper": 1e-3, "whitened": 0.1}
# Least steps of the default schedule, for data of few batches.
_MIN_STEPS = 2000
# Draws of the weights that say whether flows ended better than they began.
_NUM_EVAL = 32
# Parts of the training between which Python shows how far it is.
_NUM_PARTS = 20
# Random streams, below the seed.
_INIT, _TRAINING = range(2)


@dataclasses.dataclass(frozen=True)
class Flow:
    """A chain of flows of one kind, with its base and its space.

    `kind` and `length` are arguments of `Laplace.refine`. Two choices are for
    comparisons with the paper. In the `space` "whitened" flows move standard
    normal draws, which are then scaled to the Gaussian; in "paper", weights.
    The `base` "standard_normal" starts from N(0, I), not from the Gaussian.
    """

    kind: str = "radial"
    length: int = 5
    space: str = "whitened"
    base: str = "laplace"

    def __post_init__(self):
        _validation.one_of("flow", self.kind, KINDS)
        _validation.not_negative_integer("flow_length", self.length)
        _validation.one_of("space", self.space, SPACES)
        _validation.one_of("base", self.base, BASES)

    def initial_params(self, size, rng):
        """Draws parameters of flows that are near the identity.

        Returns a dict of arrays, `[length, P]` or `[length]`.
        """
        length = self.length

        def uniform(*shape):
            return rng.uniform(-1.0, 1.0, shape) / np.sqrt(size)

        if self.kind == "planar":
            return {
                "u": uniform(length, size),
                "w": uniform(length, size),
                "b": uniform(length),
            }
        if self.space == "paper":
            return {
                "x0": uniform(length, size),
                "alpha_prime": uniform(length),
                "beta_prime": uniform(length),
            }
        # Reaching as far as the draws lie from their center.
        reach = np.full(length, np.sqrt(size))
        return {
            "x0": rng.standard_normal((length, size)),
            "alpha_prime": reach,
            "beta_prime": reach + rng.standard_normal(length),
        }

    def bijector(self, params, gaussian):
        """Makes the `tfb.Chain` from standard normal draws to weights.

        `gaussian` lists the bijector of the base; it is empty for N(0, I).
        """
        # Not slices: the gradient of each is an array of all flows, of zeros.
        one_by_one = zip(*map(tf.unstack, params.values()), strict=True)
        flows = [
            KINDS[self.kind](**dict(zip(params, values, strict=True)))
            for values in one_by_one
        ][::-1]
        if self.space == "paper":
            return tfp.bijectors.Chain([*flows, *gaussian])
        return tfp.bijectors.Chain([*gaussian, *flows])


def refine(
    laplace,
    x=None,
    y=None,
    *,
    sample_weight=None,
    class_weight=None,
    flow,
    prior_precision=None,
    epochs=None,
    batch_size=128,
    learning_rate=None,
    num_samples=None,
    seed=None,
    verbose=1,
):
    """Trains a `Flow`; see `Laplace.refine`, whose arguments these are.

    Rate and number of draws default to those of the flow's space.
    """
    laplace._check_ready()
    given = {
        "y": y,
        "sample_weight": sample_weight,
        "class_weight": class_weight,
    }
    for name, value in given.items():
        if x is None and value is not None:
            raise ValueError(f"`{name}` needs `x`. Received: x=None")
    if x is not None:
        laplace = copy.copy(laplace).set_data(x, **given)
    laplace.check_data()
    prior_precision = _validation.positive(
        "prior_precision",
        laplace.prior_precision if prior_precision is None else prior_precision,
    )
    _validation.positive_integer("batch_size", batch_size)
    num_examples = streams.num_examples(laplace.training_data)
    batches = train.Batches(num_examples, batch_size)
    if epochs is None:
        epochs = max(20, -(-_MIN_STEPS // batches.per_epoch))
    _validation.positive_integer("epochs", epochs)
    if learning_rate is None:
        learning_rate = _LEARNING_RATES[flow.space]
    _validation.positive("learning_rate", learning_rate)
    if num_samples is None:
        num_samples = _NUM_SAMPLES[flow.space]
    _validation.positive_integer("num_samples", num_samples)
    seed = functional.seeds.check(seed)

    def posterior(params, history):
        refined = posteriors.FlowPosterior(
            laplace.view,
            flow.bijector(
                {name: v.astype(np.float64) for name, v in params.items()},
                _gaussian(laplace, flow, tf.float64),
            ),
            laplace.fixed,
            laplace.likelihood,
            prior_precision,
            laplace.link,
            history,
        )
        refined.training_data = laplace.training_data
        return refined

    dtype = laplace.view.dtype
    params = {
        name: value.astype(dtype.as_numpy_dtype)
        for name, value in flow.initial_params(
            laplace.view.size,
            np.random.default_rng(functional.seeds.key(seed, _INIT)),
        ).items()
    }
    start = posterior(params, {"elbo": np.zeros([0])})
    if not flow.length:
        return start
    loss = _loss(laplace, flow, prior_precision, num_samples)
    params, elbo = train_params(
        loss,
        params,
        laplace.training_data,
        batches,
        epochs,
        learning_rate,
        functional.seeds.key(seed, _TRAINING),
        verbose,
    )
    refined = posterior(params, {"elbo": elbo})
    before, after = evidence_bound.bounds([start, refined], _NUM_EVAL)
    # Of most draws, as means of so few are noise.
    if np.quantile(after - before, 0.75) >= 0.0:
        return refined
    _validation.warn(
        "The training of the flows was undone, as it lowered the bound from "
        f"{before.mean():.6g} to {after.mean():.6g} nats. A lower "
        "`learning_rate` may help. "
        f"Received: learning_rate={learning_rate}"
    )
    start.history["elbo"] = elbo
    return start


def _gaussian(laplace, flow, dtype):
    """Returns the bijector of the base, a list."""
    if flow.base == "standard_normal":
        return []
    return [flow_lib.Affine(laplace.loc, laplace.covariance, dtype)]


def _loss(laplace, flow, prior_precision, num_samples):
    """Returns the negative bound, per example, for `train.make_program`."""
    view, likelihood = laplace.view, laplace.likelihood
    num_examples = streams.num_examples(laplace.training_data)
    base = _gaussian(laplace, flow, view.dtype)
    weights = [tf.convert_to_tensor(value) for value in laplace.fixed]

    def loss(params, fixed, common, batch, key, step):
        del common
        inputs, targets, *of_examples = batch
        z = philox.normal(
            [num_samples, view.size], tf.stack([key, step]), dtype=view.dtype
        )
        theta, log_q = evidence_bound.push(flow.bijector(params, base), z)
        log_likelihood = functional.likelihoods.weighed_sum(
            likelihood.log_prob(targets, view.outputs(theta, inputs, weights)),
            *of_examples,
        )
        elbo = tf.reduce_mean(
            num_examples / targets.shape[0] * log_likelihood
            + gaussian.centered_log_prob(theta, prior_precision)
            - log_q
        )
        # For each example, so that Adam's constant does not matter.
        return -elbo / num_examples, elbo, fixed

    return loss


def train_params(
    loss, params, data, batches, epochs, learning_rate, key, verbose
):
    """Trains the parameters of flows, a dict of arrays.

    The loss is for `train.make_program`, the learning rate that at the first
    step. Also returns the mean bound of the steps of each part, nats, `[T]`.
    """
    rule = update_rules.Adam()
    if not isinstance(data, streams.Stream):
        data = keras.tree.map_structure(functional.tensors.convert, data)
    feed = streams.feed(data, batches, epochs * batches.per_epoch)
    program = train.make_program(
        loss,
        rule,
        feed.batches,
        schedule=update_rules.cycle(epochs * batches.per_epoch),
    )
    params = {name: tf.constant(v[np.newaxis]) for name, v in params.items()}
    state = train.State(params, [], rule.zeros(params))
    bar = functional.progress.Progress(
        "flow refinement", epochs, verbose, unit="epochs"
    )
    per_part = max(1, math.ceil(epochs / _NUM_PARTS))
    trace = []
    for first in range(0, epochs, per_part):
        last = min(first + per_part, epochs)
        begin, end = first * batches.per_epoch, last * batches.per_epoch
        state, found = train.take_steps(
            program,
            feed,
            state,
            tf.constant([key], tf.int64),
            tf.constant(learning_rate, tf.float32),
            begin,
            end,
        )
        trace.append(float(found[0]))
        bar.update(last, elbo=trace[-1])
    return {k: v[0].numpy() for k, v in state.params.items()}, np.array(trace)
