"""The course of a training of members, and its checkpoint."""

import keras
import numpy as np
import tensorflow as tf

# Segments between which Python shows, and saves, how far it is.
_SEGMENTS = 20


class Progress:
    """How far a training is; perhaps continued from a file.

    Args:
        state: `MemberState` at the start.
        checkpoint: `Checkpoint`, or `None`.

    Attributes:
        state: `MemberState` of arrays.
        snapshots: List of `(params [M, P], others [M, V])`.
    """

    def __init__(self, state, checkpoint):
        self.state, self.snapshots = state, []
        self._step, self._steps, self._losses = 0, [], []
        self._checkpoint = checkpoint
        arrays = checkpoint and checkpoint.load()
        if arrays is not None:
            leaves = tf.nest.flatten(state)
            self.state = tf.nest.pack_sequence_as(
                state, [arrays[f"state_{i}"] for i in range(len(leaves))]
            )
            self._steps = [*arrays["steps"]]
            self._losses = [*arrays["losses"]]
            self._step = int(self._steps[-1])
            if "snapshot_params" in arrays:
                self.snapshots = [
                    *zip(
                        arrays["snapshot_params"],
                        arrays["snapshot_others"],
                        strict=True,
                    )
                ]

    def train(self, training, steps, verbose, collect=()):
        """Trains all members to the end.

        Args:
            training: `MemberTraining`.
            steps: Number of steps.
            verbose: 0 is silent, 1 a progress bar, 2 a line at the end.
            collect: Numbers of steps after which a snapshot is taken.

        Raises:
            FloatingPointError: If a member's loss is not finite.
        """
        keys = training.keys(len(self.state.params))
        segment = -(-steps // _SEGMENTS)
        ends = sorted({*range(segment, steps, segment), steps, *collect})
        bar = keras.utils.Progbar(steps, verbose=verbose, unit_name="step")
        for end in ends:
            if end <= self._step:
                continue
            state, losses = training.program(
                self.state, keys, tf.constant(self._step), tf.constant(end)
            )
            losses = losses.numpy()
            bad = np.flatnonzero(~np.isfinite(losses))
            if bad.size:
                raise FloatingPointError(
                    f"The loss of member {bad[0]} became {losses[bad[0]]} "
                    f"between steps {self._step} and {end}. A lower learning "
                    "rate may help."
                )
            self.state = tf.nest.map_structure(lambda v: v.numpy(), state)
            self._step = end
            self._steps.append(end)
            self._losses.append(losses)
            if end in collect:
                self.snapshots.append((self.state.params, self.state.others))
            if self._checkpoint is not None:
                self._save()
            bar.update(end, [("loss", losses.mean())])

    def history(self):
        """Returns the history of a `WeightEnsemble`."""
        return {
            "step": np.array(self._steps),
            "loss": np.stack(self._losses, axis=1),
        }

    def _save(self):
        leaves = tf.nest.flatten(self.state)
        arrays = {
            **{f"state_{i}": leaf for i, leaf in enumerate(leaves)},
            "steps": np.array(self._steps),
            "losses": np.array(self._losses),
        }
        if self.snapshots:
            params, others = zip(*self.snapshots, strict=True)
            arrays |= {
                "snapshot_params": np.stack(params),
                "snapshot_others": np.stack(others),
            }
        self._checkpoint.save(arrays)
