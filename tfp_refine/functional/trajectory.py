"""Long trainings in segments, which report, save and continue."""

from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.functional import data
from tfp_refine.functional import files
from tfp_refine.functional import layer_calls
from tfp_refine.functional import objective as objective_lib
from tfp_refine.functional import resumable
from tfp_refine.functional import seeds
from tfp_refine.functional import train as train_lib

# Segments between which Python shows, and saves, how far it is.
_SEGMENTS = 20


class Trajectory(NamedTuple):
    """Members at the end of their training, and on the way.

    Attributes:
        params: `[M, ...]` (or nested).
        fixed: Values of the fixed weights, a list, `[M, ...]` each.
        snapshots: List of `(params, fixed)`, likewise.
        history: Dict of `step`, array `[T]`, and `loss`, the mean training loss
            since the step before, array `[M, T]`.
    """

    params: Any
    fixed: list
    snapshots: list
    history: dict


def train(
    name,
    objective,
    start,
    update_rule,
    batches,
    *,
    steps,
    learning_rate,
    settings,
    seed,
    schedule=None,
    loss=None,
    checkpoint_dir=None,
    verbose=1,
    collect=(),
):
    """Trains members by the mean loss and the model's penalties.

    Args:
        name: What is made, such as "deep_ensemble"; the checkpoint's name.
        objective: `Objective`.
        start: `(params [M, P], fixed)`, arrays; fixed weights are a list,
            `[M, ...]` each.
        update_rule: Object of `update_rules`.
        batches: `train.Batches`.
        steps: Number of steps.
        learning_rate: Of the update rule.
        settings: Dict that JSON can hold, of what else decides the result.
        seed: Integer; member `i` has the random stream `key(seed, i)`.
        schedule: As for `train.make_program`.
        loss: As for `train.make_program`; the mean loss of a batch if `None`.
        checkpoint_dir: Folder to continue from, or `None`.
        verbose: 0 is silent, 1 a progress bar, 2 a line at the end.
        collect: Numbers of steps after which a snapshot is taken.

    Returns:
        trajectory: `Trajectory` of arrays.
    """
    if loss is None:

        def loss(params, fixed, common, batch, key, step):
            del common
            nll, fixed, penalty = objective.training_loss(
                *batch, params, fixed, key, step
            )
            return nll + penalty, nll + penalty, fixed

    params, fixed = start
    progress = _Progress(
        train_lib.State(params, fixed, update_rule.zeros(params)),
        _open_checkpoint(
            checkpoint_dir,
            name,
            objective,
            start,
            {
                "seed": seed,
                "steps": steps,
                "learning_rate": learning_rate,
                **batches._asdict(),
                **settings,
            },
        ),
    )
    numbers = range(len(params))
    program = train_lib.make_program(
        loss, update_rule, batches, schedule=schedule
    )
    rate = tf.constant(learning_rate, params.dtype)
    segment = -(-steps // _SEGMENTS)
    bar = keras.utils.Progbar(steps, verbose=verbose, unit_name="step")
    for end in sorted({*range(segment, steps, segment), steps, *collect}):
        begin = progress.step
        if end <= begin:
            continue
        result = program(
            progress.state,
            (),
            seeds.keys(seed, len(params)),
            rate,
            tf.constant(begin, tf.int64),
            tf.constant(end, tf.int64),
            (),
            objective.data,
        )
        train_lib.check_finite(result, numbers, begin, end)
        progress.add(result, end, end in collect)
        bar.update(end, [("loss", np.mean(result.loss))])
    return progress.trajectory()


class _Progress:
    """How far a training is; perhaps continued from a file."""

    def __init__(self, state, checkpoint):
        self.state, self._snapshots = state, []
        self._steps, self._losses = [], []
        self._checkpoint = checkpoint
        arrays = checkpoint and checkpoint.load()
        if arrays is None:
            return
        self.state = tf.nest.pack_sequence_as(
            state, files.unpack(arrays, "state")
        )
        self._steps = arrays["steps"].tolist()
        self._losses = [*arrays["losses"]]
        stacked = files.unpack(arrays, "snapshots")
        if stacked:
            like = (state.params, state.fixed)
            self._snapshots = [
                tf.nest.pack_sequence_as(like, leaves)
                for leaves in zip(*stacked, strict=True)
            ]

    @property
    def step(self):
        """The step after the last."""
        return self._steps[-1] if self._steps else 0

    def add(self, result, end, collected):
        """Adds a segment, and saves all that there is."""
        self.state = tf.nest.map_structure(lambda v: v.numpy(), result.state)
        self._steps.append(end)
        self._losses.append(result.loss.numpy())
        if collected:
            self._snapshots.append((self.state.params, self.state.fixed))
        if self._checkpoint is None:
            return
        stacked = ()
        if self._snapshots:
            stacked = tf.nest.map_structure(
                lambda *leaves: np.stack(leaves), *self._snapshots
            )
        self._checkpoint.save(
            {
                "steps": np.array(self._steps),
                "losses": np.array(self._losses),
                **files.pack(tf.nest.flatten(self.state), "state"),
                **files.pack(tf.nest.flatten(stacked), "snapshots"),
            }
        )

    def trajectory(self):
        """Returns the `Trajectory`."""
        return Trajectory(
            self.state.params,
            self.state.fixed,
            self._snapshots,
            {
                "step": np.array(self._steps),
                "loss": np.stack(self._losses, axis=1),
            },
        )


def _open_checkpoint(directory, name, objective, start, settings):
    if directory is None:
        return None
    view, (x, y) = objective.view, objective.data
    head = data.take(objective.data, slice(0, 2))
    first = tf.nest.map_structure(lambda value: value[0], start)
    outputs, _, penalty = view.call_and_update(
        head[0], *first, key=0, index=0, training=False
    )
    nll = objective_lib.negative_log_likelihood(
        objective.loss, head[1], outputs
    )
    return resumable.open_checkpoint(
        directory,
        name,
        {
            **settings,
            "layers": [
                layer_calls.description(layer)
                for layer in view.model._flatten_layers(include_self=False)
            ],
            # Losses, seen through what they compute.
            "loss": resumable.rounded(nll),
            "penalty": resumable.rounded(penalty),
        },
        {"x": x, "y": y, "initial_weights": start},
    )
