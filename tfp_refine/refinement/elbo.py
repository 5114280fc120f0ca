"""The variational bound of a posterior, on all of its training data."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.refinement import bound
from tfp_refine.refinement import objective as objective_lib
from tfp_refine.refinement import starts as starts_lib


def elbo(
    model: keras.Model
    | posteriors.GaussianPosterior
    | posteriors.VariationalPosterior,
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    class_weight: dict[int, float] | None = None,
    loss: Any = None,
    num_samples: int = 10,
    marginal_prior: Any = False,
    seed: int | None = None,
) -> float:
    """Estimates the evidence lower bound (ELBO) of a posterior.

    `E_q[log p(y | x, w)] - KL(q || p)`, summed over the training set, in which
    an example counts as often as its weight says. The expectation is an average
    over draws; the KL divergence is that of the regularizers, whatever
    `kl_scale` is: exact, but for a prior or a posterior that needs draws.

    Args:
        model: Built `keras.Model` with variational layers, or trained with
            `optimizers.IVON`; or its posterior, or a `GaussianPosterior` that
            knows its prior.
        x: Training inputs, as for `refine`.
        y: Training targets, as for `refine`.
        sample_weight: Weights of examples, as for `refine`.
        class_weight: Weights by class number, as for `refine`.
        loss: Negative log likelihood, as for `refine`.
        num_samples: Weight draws. Defaults to `10`.
        marginal_prior: Whether the KL divergence is that from the Gaussian
            prior of the weights alone, as in refinement. It makes a difference
            for `CollapsedMeanKL`: the bound with the means integrated out is
            higher than the collapsed one. Defaults to `False`.
        seed: Integer that fixes the draws; fresh ones if `None`.

    Returns:
        elbo: Nats, for the whole training set, a float.

    Raises:
        ValueError: If an argument is invalid, the data does not fit the model,
            or the model has no bound: a posterior without a prior, layers with
            `sample=False`, a marginal prior that is not Gaussian, a loss as
            `refine` refuses it.

    Example:

    ```python
    before = tfp_refine.elbo(model, x_train, y_train, seed=1)
    model.fit(x_train, y_train, epochs=1000)
    after = tfp_refine.elbo(model, x_train, y_train, seed=1)  # higher
    ```
    """
    num_samples = _validation.positive_integer("num_samples", num_samples)
    seed = functional.seeds.check(seed)
    given = {
        "x": x,
        "y": y,
        "loss": loss,
        "sample_weight": sample_weight,
        "class_weight": class_weight,
    }
    model = starts_lib.source_of(model)
    if isinstance(model, posteriors.GaussianPosterior):
        return _of_gaussian(model, given, num_samples, seed)
    key = functional.seeds.key(seed)
    weights = functional.variational_weights(model)
    for weight in weights:
        weight.check_prior()
    view = functional.WeightView(model, "none")
    objective = functional.Objective(view, **given)
    objective_lib.check_layers(model, objective.num_examples)
    draw = objective.params, objective.fixed, tf.constant(key, tf.int64)
    log_likelihood = _log_likelihood(objective, [draw], num_samples)
    seeds = keras.random.SeedGenerator(key % 2**31)
    return log_likelihood - sum(
        _kl(weight, marginal_prior, num_samples, seeds) for weight in weights
    )


def _of_gaussian(posterior, given, num_samples, seed):
    """Estimates the bound of a Gaussian of a vector of weights."""
    divergence = posterior.kl_divergence()
    if given["loss"] is None:
        given = given | {"loss": starts_lib.loss_of([posterior])}
    objective = functional.Objective(posterior.view, **given)
    objective_lib.check_count(posterior, objective.num_examples)
    fixed = list(posterior.fixed)
    draws = [
        (draw, fixed, key)
        for draw, key in zip(
            posterior.sample(num_samples, seed=seed),
            functional.seeds.keys(seed, num_samples),
            strict=True,
        )
    ]
    return _log_likelihood(objective, draws, 1) - divergence


def _log_likelihood(objective, draws, num_samples):
    """Estimates the expected log likelihood of all examples, nats, a float.

    Draws are `(params, fixed, key)`. Layers draw `num_samples` times for each.
    """
    num_samples = tf.constant(num_samples, tf.int64)
    if not isinstance(objective.data, functional.streams.Stream):
        program = functional.Program(
            lambda *arguments: bound.expected_log_likelihood(
                objective, *arguments
            )
        )
        rows = tf.range(objective.num_examples)
        return float(
            np.mean(
                [
                    program(
                        params, fixed, objective.data, rows, key, num_samples
                    )
                    for params, fixed, key in draws
                ]
            )
        )
    # Block by block, by the same noise.
    program = functional.Program(
        lambda *arguments: bound.log_likelihood_of_draws(objective, *arguments),
        varying=(False, False, True, True, *[False] * 4),
    )
    size = bound.block_rows(objective.data.specs[0])
    num_blocks = tf.constant(-(-objective.num_examples // size), tf.int64)
    total = 0.0
    for number, (_, block) in enumerate(objective.data.blocks(size)):
        rows = tf.range(functional.data.num_examples(block))
        number = tf.constant(number, tf.int64)
        for params, fixed, key in draws:
            total += program(
                params, fixed, block, rows, key, num_samples, number, num_blocks
            )
    return float(total) / (len(draws) * int(num_samples))


def _kl(weight, marginal_prior, num_samples, seeds):
    compute = weight.marginal_kl if marginal_prior else weight.kl
    draws = num_samples if weight.has_random_kl else 1
    # Of the posterior that the likelihood is of, where a layer limits scales.
    return float(
        np.mean([compute(seed=seeds, limited=True) for _ in range(draws)])
    )
