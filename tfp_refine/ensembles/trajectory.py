"""A training of members, from checked arguments to its end."""

import keras
import tensorflow as tf

from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.ensembles import member_training
from tfp_refine.ensembles import progress as progress_lib
from tfp_refine.functional import checkpoint as checkpoint_lib


def train(
    name,
    model,
    loss,
    start,
    data,
    schedule,
    settings,
    *,
    seed,
    checkpoint_dir,
    verbose,
    bootstrap=False,
    perturbation=None,
    collect=(),
):
    """Trains members.

    Args:
        name: What is made, such as "deep_ensemble"; the checkpoint's name.
        model: Built `keras.Model` of the members.
        loss: What `functional.example_loss.resolve` returned.
        start: `(params [M, P], others [M, V])`.
        data: `(x, y)`, tensors.
        schedule: `Schedule`.
        settings: Dict that JSON can hold, of all that decides the result but
            for `start` and `data`.
        seed: Integer.
        checkpoint_dir: Folder to save progress in, and to continue from, or
            `None`.
        verbose: 0 is silent, 1 a progress bar, 2 a line at the end.
        bootstrap: As for `MemberTraining`.
        perturbation: As for `MemberTraining`.
        collect: Numbers of steps after which a snapshot is taken.

    Returns:
        progress: `Progress` at its end.

    Raises:
        ValueError: If data do not fit the model, or the checkpoint is of
            something else.
        FloatingPointError: If a member's loss is not finite.
    """
    (params, others), (x, y) = start, data
    functional.arrays.check_fits(model, x)
    weights = functional.ModelWeights(model)
    head = keras.tree.map_structure(lambda leaf: leaf[:1], x)
    outputs, _, penalty = weights.outputs(head, params[0], others[0], seed, 0)
    functional.example_loss.check_labels(loss, y, outputs)
    checkpoint = None
    if checkpoint_dir is not None:
        fingerprint = checkpoint_lib.fingerprint(
            {"seed": seed, **settings},
            {
                "x": x,
                "y": y,
                "initial_weights": params,
                "other_initial_weights": others,
            },
        )
        fingerprint["layers"] = [
            posteriors.calls.description(layer)
            for layer in model._flatten_layers(include_self=False)
        ]
        # The losses, seen through what they compute; rounded, as machines may
        # differ in the last digits.
        fingerprint["penalty"] = f"{float(penalty):.3e}"
        nll = functional.example_loss.negative_log_likelihood(
            loss, y[:1], outputs
        )
        fingerprint["loss"] = f"{float(tf.reduce_mean(nll)):.3e}"
        checkpoint = checkpoint_lib.Checkpoint(
            checkpoint_dir, name, fingerprint
        )
    training = member_training.MemberTraining(
        weights, loss, x, y, schedule, seed, bootstrap, perturbation
    )
    progress = progress_lib.Progress(
        member_training.MemberState(
            params, others, schedule.optimizer.zeros(params)
        ),
        checkpoint,
    )
    progress.train(training, schedule.steps, verbose, collect)
    return progress
