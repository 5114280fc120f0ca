"""Deep ensembles: the same network, trained from several starts."""

import os
from collections.abc import Callable
from typing import Any

import keras

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.ensembles import adversarial
from tfp_refine.ensembles import initial_members
from tfp_refine.functional import resumable
from tfp_refine.functional import train
from tfp_refine.functional import trajectory
from tfp_refine.functional import update_rules

# Random streams, below the seed.
_INIT, _TRAINING = range(2)


def deep_ensemble(
    model: keras.Model | Callable[[int], keras.Model],
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    class_weight: dict[int, float] | None = None,
    num_members: int = 10,
    steps: int = 10000,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    learning_rate_decay: str = "constant",
    adversarial_epsilon: float | None = None,
    bootstrap: bool = False,
    loss: Any = None,
    checkpoint_dir: str | os.PathLike | None = None,
    seed: int | None = None,
    verbose: int = 1,
) -> posteriors.EnsemblePosterior:
    """Trains a deep ensemble, all members in one compiled program.

    Members differ in their initial weights and in the order of the examples.
    Each minimizes the mean loss and the model's regularization losses by Adam;
    predictions are averaged as probabilities, or a mixture of Gaussians.
    Memory: the data, members' weights three times, and the activations of as
    many members as there are cores.

    Args:
        model: Built `keras.Model`, functional or Sequential, which is not
            changed: members have its frozen weights, and trainable ones of
            their own. Or a function of a seed that returns a built model, for
            any other.
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
        num_members: `M`, number of members. Defaults to `10`.
        steps: Steps of each. Defaults to `10000`.
        batch_size: Examples in a step. Defaults to `128`.
        learning_rate: Adam's. Defaults to `1e-3`.
        learning_rate_decay: `"constant"`; `"linear"` or `"cosine"` to zero.
        adversarial_epsilon: Trains on perturbed inputs too: each feature moves
            by this part of its range, by the sign of the loss' gradient. The
            paper has 0.01. Defaults to `None`, without.
        bootstrap: Whether each member has training examples of its own, `N`
            drawn with replacement, for which data must fit in memory. Defaults
            to `False`.
        loss: Negative log likelihood: Keras loss, its name, or a callable
            `(y_true, y_pred) -> [B]`, nats; of several outputs a dict or list,
            whose sum counts. Defaults to the loss, and the `loss_weights`, that
            the model was compiled with.
        checkpoint_dir: Folder to save progress in, and to continue from.
        seed: Integer that fixes the result; a fresh one if `None`.
        verbose: 0 is silent, 1 a progress bar, 2 lines.

    Returns:
        ensemble: `EnsemblePosterior` of `M` points. Its `history` has
            `step [T]` and `loss [M, T]`, the mean training loss since the step
            before.

    Raises:
        ValueError: If an argument is invalid, the data does not fit the model,
            the model cannot be copied, or the checkpoint belongs to another
            ensemble.
        FloatingPointError: If a member's loss is not finite.

    Example:

    ```python
    ensemble = tfp_refine.ensembles.deep_ensemble(model, x_train, y_train)
    draws = ensemble.predict(x_test, num_samples=10)  # of every member
    ```

    Reference:
        - [Lakshminarayanan et al., 2017](https://arxiv.org/abs/1612.01474)
    """
    _validation.all_positive_integers(
        num_members=num_members, steps=steps, batch_size=batch_size
    )
    _validation.positive("learning_rate", learning_rate)
    if adversarial_epsilon is not None:
        _validation.positive("adversarial_epsilon", adversarial_epsilon)
    schedule = update_rules.decay(learning_rate_decay, steps)
    seed = resumable.check_seed(seed, checkpoint_dir)
    view, *start = initial_members.initial_members(
        model, num_members, functional.seeds.key(seed, _INIT)
    )
    objective = functional.Objective(
        view,
        x,
        y,
        loss,
        per_example=False,
        sample_weight=sample_weight,
        class_weight=class_weight,
    )
    trained = trajectory.train(
        "deep_ensemble",
        objective,
        start,
        update_rules.Adam(),
        train.Batches(objective.num_examples, batch_size, bool(bootstrap)),
        steps=steps,
        learning_rate=learning_rate,
        settings={
            "learning_rate_decay": learning_rate_decay,
            "adversarial_epsilon": adversarial_epsilon,
        },
        seed=functional.seeds.key(seed, _TRAINING),
        schedule=schedule,
        loss=adversarial.make_loss(objective, adversarial_epsilon),
        checkpoint_dir=checkpoint_dir,
        verbose=verbose,
    )
    return posteriors.EnsemblePosterior(
        view,
        trained.params,
        trained.fixed,
        objective.link,
        trained.history,
        input_specs=functional.streams.specs(objective.data)[0],
    )
