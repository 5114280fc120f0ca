"""Cyclical stochastic gradient Hamiltonian Monte Carlo."""

import os
from typing import Any

import keras
import numpy as np

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.functional import resumable
from tfp_refine.functional import train
from tfp_refine.functional import trajectory
from tfp_refine.functional import update_rules


def cyclical_sghmc(
    model: keras.Model,
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    class_weight: dict[int, float] | None = None,
    num_cycles: int = 4,
    samples_per_cycle: int = 3,
    steps_per_cycle: int | None = None,
    steps_per_sample: int | None = None,
    batch_size: int = 128,
    learning_rate: float = 0.1,
    momentum: float = 0.1,
    temperature: float | None = None,
    loss: Any = None,
    checkpoint_dir: str | os.PathLike | None = None,
    seed: int | None = None,
    verbose: int = 1,
) -> posteriors.SamplePosterior:
    """Samples weights at the ends of cycles of the learning rate.

    The learning rate starts each cycle high, to leave a mode, and falls as a
    cosine. In the last steps of a cycle noise is added, and samples are taken.

    Args:
        model: Built `keras.Model` to start from, trained or not; it is not
            changed. Its regularization losses stand for the prior: those of
            `N(0, s**2)` are `keras.regularizers.L2(0.5 / (N * s**2))`.
        x: Training inputs, `[N, ...]` (or nested), or batches of `(x, y)` or
            `(x, y, sample_weight)`, such as a `tf.data.Dataset`, a
            `keras.utils.PyDataset` or a generator. Batches are read into
            memory if they have no more than 1 GiB; else again and again, in
            windows, as by `refine`.
        y: Training targets, `[N, ...]`; of several outputs a dict or list.
            `None` for batches.
        sample_weight: Weights, `[N]`: the likelihood of an example counts as
            often as its weight says. Those of positions too, `[N, T]`, with
            losses of `tfr.losses`; of several outputs a dict or list, or one
            for all. `None` for batches.
        class_weight: Weights by class number, a dict, in place of
            `sample_weight`; 1 for those left out.
        num_cycles: Number of cycles. Defaults to `4`.
        samples_per_cycle: Samples of each. Defaults to `3`.
        steps_per_cycle: Steps of each. Defaults to those of 50 epochs.
        steps_per_sample: Steps between two samples, all with noise. Defaults to
            those of an epoch.
        batch_size: Examples in a step. Defaults to `128`.
        learning_rate: Of the mean loss, at the start of a cycle. Defaults to
            `0.1`.
        momentum: 1 less the friction. Defaults to `0.1`, as in published
            experiments, whose friction is 0.9.
        temperature: Of the posterior that is sampled: 1 is that of Bayes.
            Defaults to `1 / N`, as in published experiments, which are hardly
            more than snapshots of gradient descent.
        loss: Negative log likelihood: Keras loss, its name, or a callable
            `(y_true, y_pred) -> [B]`, nats; of several outputs a dict or list,
            whose sum counts. Defaults to the loss, and the `loss_weights`, that
            the model was compiled with.
        checkpoint_dir: Folder to save progress in, and to continue from.
        seed: Integer that fixes the result; a fresh one if `None`.
        verbose: 0 is silent, 1 a progress bar, 2 lines.

    Returns:
        samples: `SamplePosterior` of `num_cycles * samples_per_cycle` samples,
            each with its moving averages; its `history` has `step [T]` and
            `loss [T]`, the mean training loss since the step before.

    Raises:
        ValueError: If an argument is invalid, the data does not fit the model,
            the loss is a mean over outputs or further axes, or the checkpoint
            is of something else.
        FloatingPointError: If the loss is not finite.

    Example:

    ```python
    posterior = tfp_refine.sampling.cyclical_sghmc(
        model, x_train, y_train, num_cycles=2, samples_per_cycle=5
    )
    draws = posterior.predict(x_test, num_samples=10)
    ```

    Reference:
        - [Zhang et al., 2020](https://arxiv.org/abs/1902.03932)
    """
    _validation.all_positive_integers(
        num_cycles=num_cycles,
        samples_per_cycle=samples_per_cycle,
        batch_size=batch_size,
    )
    _validation.positive("learning_rate", learning_rate)
    _validation.proportion("momentum", momentum, one=False)
    seed = resumable.check_seed(seed, checkpoint_dir)
    view = functional.WeightView(model)
    objective = functional.Objective(
        view,
        x,
        y,
        loss,
        sample_weight=sample_weight,
        class_weight=class_weight,
    )
    batches = train.Batches(objective.num_examples, batch_size)
    if steps_per_cycle is None:
        steps_per_cycle = 50 * batches.per_epoch
    if steps_per_sample is None:
        steps_per_sample = batches.per_epoch
    _validation.positive_integer("steps_per_cycle", steps_per_cycle)
    _validation.positive_integer("steps_per_sample", steps_per_sample)
    noisy_steps = samples_per_cycle * steps_per_sample
    if noisy_steps > steps_per_cycle:
        raise ValueError(
            "A cycle must have room for its samples: `samples_per_cycle * "
            f"steps_per_sample` is {noisy_steps}, "
            f"steps_per_cycle={steps_per_cycle}"
        )
    if temperature is None:
        temperature = 1.0 / objective.num_examples
    _validation.not_negative("temperature", temperature)
    steps = num_cycles * steps_per_cycle
    trained = trajectory.train(
        "cyclical_sghmc",
        objective,
        (
            np.asarray(objective.params)[np.newaxis],
            [np.asarray(value)[np.newaxis] for value in objective.fixed],
        ),
        update_rules.Momentum(
            momentum,
            2.0 * (1.0 - momentum) * temperature / objective.num_examples,
            lambda number: (
                number % steps_per_cycle >= steps_per_cycle - noisy_steps
            ),
        ),
        batches,
        steps=steps,
        learning_rate=learning_rate,
        settings={
            "num_cycles": num_cycles,
            "samples_per_cycle": samples_per_cycle,
            "steps_per_cycle": steps_per_cycle,
            "steps_per_sample": steps_per_sample,
            "momentum": momentum,
            "temperature": temperature,
        },
        seed=seed,
        schedule=update_rules.cycle(steps_per_cycle),
        checkpoint_dir=checkpoint_dir,
        verbose=verbose,
        collect=[
            end - sample * steps_per_sample
            for end in range(steps_per_cycle, steps + 1, steps_per_cycle)
            for sample in range(samples_per_cycle)
        ],
    )
    params, fixed = zip(*trained.snapshots, strict=True)
    return posteriors.SamplePosterior(
        view,
        np.concatenate(params),
        [np.concatenate(values) for values in zip(*fixed, strict=True)],
        objective.link,
        {**trained.history, "loss": trained.history["loss"][0]},
        stacked=True,
    )
