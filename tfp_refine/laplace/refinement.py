"""Refinement of Laplace's approximation by a normalizing flow."""

import numpy as np

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.laplace import flow_posterior
from tfp_refine.laplace import flow_training

# Least steps of the default schedule, for data of few batches.
_MIN_STEPS = 2000


def refine(
    laplace,
    flow,
    *,
    prior_precision,
    epochs,
    batch_size,
    learning_rate,
    num_samples,
    seed,
    verbose,
):
    """Trains a flow; see `Laplace.refine`, whose arguments these are.

    Args:
        laplace: Fitted `Laplace`, with training data.
        flow: `Flow`.
        prior_precision: As there.
        epochs: As there.
        batch_size: As there.
        learning_rate: As there.
        num_samples: As there.
        seed: As there.
        verbose: As there.

    Returns:
        posterior: `FlowPosterior`.

    Raises:
        ValueError: If an argument is invalid.
        FloatingPointError: If the bound is not finite.
    """
    if prior_precision is None:
        prior_precision = laplace.prior_precision
    _validation.positive("prior_precision", prior_precision)
    _validation.positive_integer("batch_size", batch_size)
    num_examples = len(laplace.targets)
    if epochs is None:
        per_epoch = max(1, num_examples // batch_size)
        epochs = max(20, -(-_MIN_STEPS // per_epoch))
    schedule = flow_training.Schedule(
        _validation.positive_integer("epochs", epochs),
        batch_size,
        _validation.positive("learning_rate", learning_rate),
        _validation.positive_integer("num_samples", num_samples),
    )
    seed = functional.seeds.check(seed)
    network = laplace.network
    dtype = network.dtype
    params = {
        name: value.astype(dtype.as_numpy_dtype)
        for name, value in flow.initial_params(
            network.size,
            np.random.default_rng(
                functional.seeds.key(seed, flow_training.INIT)
            ),
        ).items()
    }
    trace = []
    if flow.length:
        transformation = flow.base_transformation(laplace, dtype)
        trainer = flow_training.Trainer(
            posteriors.log_joint(network, laplace.likelihood, prior_precision),
            lambda params, z: flow.forward(params, z, *transformation),
            laplace.inputs,
            laplace.targets,
            schedule,
            seed,
        )
        params, trace = trainer.train(params, network.size, verbose)
    return flow_posterior.FlowPosterior(
        laplace, flow, params, prior_precision, trace
    )
