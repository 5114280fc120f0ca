"""Stochastic weight averaging with a Gaussian around the average."""

import os
from typing import Any

import keras
import numpy as np

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.ensembles import swag_posterior
from tfp_refine.functional import resumable
from tfp_refine.functional import train
from tfp_refine.functional import trajectory
from tfp_refine.functional import update_rules


def swag(
    model: keras.Model | posteriors.EnsemblePosterior,
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    class_weight: dict[int, float] | None = None,
    num_snapshots: int = 40,
    steps_per_snapshot: int | None = None,
    rank: int = 20,
    batch_size: int = 128,
    learning_rate: float = 0.01,
    momentum: float = 0.9,
    prior_scale: float | None = None,
    loss: Any = None,
    checkpoint_dir: str | os.PathLike | None = None,
    seed: int | None = None,
    verbose: int = 1,
) -> posteriors.GaussianPosterior | posteriors.MixturePosterior:
    """Fits Gaussians to the course of gradient descent from trained weights.

    From a deep ensemble this is MultiSWAG: a Gaussian around each member, all
    fitted in one compiled program. Memory: the data, and `num_snapshots` copies
    of the weights.

    Args:
        model: Trained `keras.Model`, which is not changed, or an
            `EnsemblePosterior` of points.
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
        num_snapshots: Weights that the moments are of. Defaults to `40`.
        steps_per_snapshot: Steps between two. Defaults to those of an epoch.
        rank: The last snapshots, whose deviations from the running mean are the
            low-rank part of the covariance. `0` has independent weights
            (SWAG-Diagonal). Defaults to `20`.
        batch_size: Examples in a step. Defaults to `128`.
        learning_rate: Of gradient descent, constant. Defaults to `0.01`.
        momentum: Of gradient descent. Defaults to `0.9`.
        prior_scale: Standard deviation of a centred Gaussian prior of each
            weight. Training does not have it; the posterior does, so that
            `refine` can start from it. Defaults to no prior.
        loss: Negative log likelihood: Keras loss, its name, or a callable
            `(y_true, y_pred) -> [B]`, nats; of several outputs a dict or list,
            whose sum counts. Defaults to the loss, and the `loss_weights`, that
            the model was compiled with. The model's regularization losses are
            added.
        checkpoint_dir: Folder to save progress in, and to continue from.
        seed: Integer that fixes the result; a fresh one if `None`.
        verbose: 0 is silent, 1 a progress bar, 2 lines.

    Returns:
        posterior: For a model a `GaussianPosterior` whose covariance is of low
            rank and a diagonal, half of it each, or a diagonal if `rank`
            is 0; an `SWAGPosterior` if the model has moving averages. For an
            ensemble a `MixturePosterior` of these. Its `history` has `step [T]`
            and `loss [T]` (for an ensemble `[M, T]`), the mean training loss
            since the step before.

    Raises:
        ValueError: If an argument is invalid, the data does not fit the model,
            or the checkpoint is of something else.
        FloatingPointError: If the loss is not finite.

    Example:

    ```python
    posterior = tfp_refine.ensembles.swag(model, x_train, y_train)
    draws = tfp_refine.predict(posterior, x_test, num_samples=30)
    ```

    Reference:
        - [Maddox et al., 2019](https://arxiv.org/abs/1902.02476)
        - [Wilson and Izmailov, 2020](https://arxiv.org/abs/2002.08791)
    """
    _validation.all_positive_integers(
        num_snapshots=num_snapshots, batch_size=batch_size
    )
    _validation.not_negative_integer("rank", rank)
    if num_snapshots < 2 or rank not in (0, *range(2, num_snapshots + 1)):
        raise ValueError(
            "`num_snapshots` must be at least 2, and `rank` be 0 or from 2 to "
            "`num_snapshots`. Received: "
            f"rank={rank}, num_snapshots={num_snapshots}"
        )
    if prior_scale is not None:
        _validation.positive("prior_scale", prior_scale)
    _validation.positive("learning_rate", learning_rate)
    _validation.proportion("momentum", momentum, one=False)
    seed = resumable.check_seed(seed, checkpoint_dir)
    view, start = _start(model)
    objective = functional.Objective(
        view,
        x,
        y,
        loss,
        per_example=False,
        sample_weight=sample_weight,
        class_weight=class_weight,
    )
    _check_averages(objective)
    batches = train.Batches(objective.num_examples, batch_size)
    if steps_per_snapshot is None:
        steps_per_snapshot = batches.per_epoch
    _validation.positive_integer("steps_per_snapshot", steps_per_snapshot)
    steps = num_snapshots * steps_per_snapshot
    trained = trajectory.train(
        "swag",
        objective,
        start,
        update_rules.Momentum(momentum),
        batches,
        steps=steps,
        learning_rate=learning_rate,
        settings={
            "num_snapshots": num_snapshots,
            "steps_per_snapshot": steps_per_snapshot,
            "momentum": momentum,
        },
        seed=seed,
        checkpoint_dir=checkpoint_dir,
        verbose=verbose,
        collect=range(steps_per_snapshot, steps + 1, steps_per_snapshot),
    )
    link, history = objective.link, trained.history
    # Weights that the training moves without gradients are moving averages.
    averages = any(map(np.any, map(np.not_equal, trained.fixed, start[1])))
    members = []
    for number in range(len(trained.params)):
        loc, covariance = swag_posterior.moments(
            np.stack([params[number] for params, _ in trained.snapshots]), rank
        )
        arguments = (view, loc, covariance, [v[number] for v in trained.fixed])
        options: Any = {"link": link, "prior_scale": prior_scale}
        if averages:
            member: Any = swag_posterior.SWAGPosterior(*arguments, **options)
            member.set_data(objective.data[0])
        else:
            member = posteriors.GaussianPosterior(*arguments, **options)
        members.append(member)
    if isinstance(model, posteriors.EnsemblePosterior):
        return posteriors.MixturePosterior(members, history)
    (member,) = members
    member.history = {**history, "loss": history["loss"][0]}
    return member


def _check_averages(objective):
    """Refuses a stream for a model whose averages each draw computes anew."""
    if not isinstance(objective.data, functional.streams.Stream):
        return
    view, fixed = objective.view, objective.fixed
    _, after, _ = view.call_and_update(
        objective.head[0], objective.params, fixed, 0, 0, training=True
    )
    if any(map(np.any, map(np.not_equal, after, fixed))):
        raise ValueError(
            f"The model '{view.model.name}' has moving averages, which each "
            "draw computes anew from all inputs: they must fit in memory. "
            f"Received: a source of {objective.num_examples} examples"
        )


def _start(model):
    """Returns a view, and the members' `(params [M, P], fixed)`."""
    if isinstance(model, posteriors.EnsemblePosterior):
        if model.view.select != "trainable":
            raise ValueError(
                "The members of an ensemble must be points, such as those of "
                "`deep_ensemble`."
            )
        return model.view, (model.params, [*map(np.asarray, model.fixed)])
    if not isinstance(model, keras.Model):
        raise ValueError(
            "`model` must be a keras.Model or an EnsemblePosterior. "
            f"Received: {type(model).__name__}"
        )
    view = functional.WeightView(model)
    fixed = [np.asarray(value)[np.newaxis] for value in view.fixed()]
    return view, (np.asarray(view.params())[np.newaxis], fixed)
