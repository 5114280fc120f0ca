"""Deep ensembles: the same network, trained from several starts."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import arguments
from tfp_refine import stateless
from tfp_refine.baselines import initial_members
from tfp_refine.baselines import member_training
from tfp_refine.baselines import weight_ensemble
from tfp_refine.math import adam
from tfp_refine.stateless import checkpoint as checkpoint_lib

# Segments between which Python shows, and saves, how far it is.
_SEGMENTS = 20
_NUM_STATES = 4  # tensors of a `MemberState`
# Random streams, below the seed.
_INIT, _TRAINING = range(2)


def deep_ensemble(
    model,
    x,
    y=None,
    *,
    num_members=10,
    steps=10000,
    batch_size=128,
    learning_rate=1e-3,
    learning_rate_decay="constant",
    adversarial_epsilon=None,
    bootstrap=False,
    loss=None,
    checkpoint_dir=None,
    seed=None,
    verbose=1,
):
    """Trains a deep ensemble, all members in one compiled program.

    Members differ in their initial weights and in the order of the examples.
    Each minimizes the mean loss and the model's regularization losses by Adam;
    predictions are averaged as probabilities, or a mixture of Gaussians.
    Memory: the data, members' weights three times, and the activations of as
    many members as there are cores.

    Args:
        model: Built `keras.Model`, functional or Sequential, which is not
            changed; or a function of a seed that returns a built model, for
            any other.
        x: Training inputs, `[N, ...]` (or nested), or a finite, batched
            `tf.data.Dataset` of `(x, y)`, which is read into memory.
        y: Training targets, `[N, ...]`; `None` for a dataset.
        num_members: `M`, number of members. Defaults to `10`.
        steps: Steps of each. Defaults to `10000`.
        batch_size: Examples in a step. Defaults to `128`.
        learning_rate: Adam's. Defaults to `1e-3`.
        learning_rate_decay: `"constant"`; `"linear"` or `"cosine"` to zero.
        adversarial_epsilon: Trains on perturbed inputs too: each feature moves
            by this part of its range, by the sign of the loss' gradient. The
            paper has 0.01. Defaults to `None`, without.
        bootstrap: Whether each member has training examples of its own, `N`
            drawn with replacement. Defaults to `False`.
        loss: Negative log likelihood: Keras loss, its name, or a callable
            `(y_true, y_pred) -> [B]`, nats. Defaults to the loss that the model
            was compiled with.
        checkpoint_dir: Folder to save progress in, and to continue from.
        seed: Integer that fixes the result; a fresh one if `None`.
        verbose: 0 is silent, 1 a progress bar, 2 a line at the end.

    Returns:
        ensemble: `WeightEnsemble`.

    Raises:
        ValueError: If an argument is invalid, the data does not fit the model,
            the model cannot be copied, or the checkpoint is of another
            ensemble.
        FloatingPointError: If a member's loss is not finite.

    Example:

    ```python
    ensemble = tfp_refine.baselines.deep_ensemble(model, x_train, y_train)
    draws = ensemble.predict(x_test)  # of every member
    ```

    Reference:
        - [Lakshminarayanan et al., 2017](https://arxiv.org/abs/1612.01474)
    """
    arguments.positive_integer("num_members", num_members)
    schedule = member_training.Schedule(
        arguments.positive_integer("steps", steps),
        arguments.positive_integer("batch_size", batch_size),
        arguments.positive("learning_rate", learning_rate),
        arguments.one_of(
            "learning_rate_decay", learning_rate_decay, member_training.DECAYS
        ),
    )
    if adversarial_epsilon is not None:
        arguments.positive("adversarial_epsilon", adversarial_epsilon)
    if checkpoint_dir is not None and seed is None:
        raise ValueError(
            "A `checkpoint_dir` needs a `seed`, so that it is known what it "
            "holds. Received: seed=None"
        )
    seed = stateless.seeds.check(seed)
    x, y, _ = stateless.arrays.examples(x, y)
    given = model
    model, params, others = initial_members.initial_members(
        given, num_members, stateless.seeds.key(seed, _INIT)
    )
    # Copies are not compiled.
    compiled = given if isinstance(given, keras.Model) else model
    loss = stateless.example_loss.resolve(compiled, loss)
    stateless.arrays.check_fits(model, x)
    weights = stateless.ModelWeights(model)
    outputs, _, _ = weights.outputs(
        keras.tree.map_structure(lambda leaf: leaf[:1], x),
        params[0],
        others[0],
        seed,
        0,
    )
    stateless.example_loss.check_labels(loss, y, outputs)
    training = member_training.MemberTraining(
        weights,
        loss,
        x,
        y,
        schedule,
        stateless.seeds.key(seed, _TRAINING),
        bool(bootstrap),
        _perturbation(x, adversarial_epsilon),
    )
    checkpoint = None
    if checkpoint_dir is not None:
        fingerprint = checkpoint_lib.fingerprint(
            {
                "seed": seed,
                "schedule": schedule._asdict(),
                "adversarial_epsilon": adversarial_epsilon,
                "bootstrap": bool(bootstrap),
            },
            {"x": x, "y": y, "initial_weights": params},
        )
        # The loss, seen through what it computes; rounded, as machines may
        # differ in the last digits.
        fingerprint["loss"] = f"{_mean_loss(loss, y[:1], outputs):.3e}"
        checkpoint = checkpoint_lib.Checkpoint(
            checkpoint_dir, "deep_ensemble", fingerprint
        )
    moments = adam.AdamState(np.zeros_like(params), np.zeros_like(params))
    progress = _Progress(
        member_training.MemberState(params, others, moments), checkpoint
    )
    progress.train(training, steps, verbose)
    return weight_ensemble.WeightEnsemble(
        model, progress.state.params, progress.state.others, progress.history()
    )


def _mean_loss(loss, y, outputs):
    nll = stateless.example_loss.negative_log_likelihood(loss, y, outputs)
    return float(tf.reduce_mean(nll))


def _perturbation(x, epsilon):
    """Returns how far adversarial training moves each input, or `None`."""
    if epsilon is None:
        return None
    if not isinstance(x, tf.Tensor) or not x.dtype.is_floating:
        raise ValueError(
            "`adversarial_epsilon` needs inputs that are one tensor of "
            "floating point numbers, which can be moved."
        )
    span = tf.reduce_max(x, axis=0) - tf.reduce_min(x, axis=0)
    return epsilon * span


class _Progress:
    """How far the training is; perhaps continued from a file."""

    def __init__(self, state, checkpoint):
        self.state, self._step = state, 0
        self._steps, self._losses = [], []
        self._checkpoint = checkpoint
        arrays = checkpoint and checkpoint.load()
        if arrays is not None:
            self.state = tf.nest.pack_sequence_as(
                state, [arrays[f"state_{i}"] for i in range(_NUM_STATES)]
            )
            self._steps = [*arrays["steps"]]
            self._losses = [*arrays["losses"]]
            self._step = int(self._steps[-1])

    def train(self, training, steps, verbose):
        """Trains all members to the end."""
        keys = training.keys(len(self.state.params))
        segment = -(-steps // _SEGMENTS)
        bar = keras.utils.Progbar(steps, verbose=verbose, unit_name="step")
        while self._step < steps:
            end = min(self._step + segment, steps)
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
        self._checkpoint.save(
            {
                **{f"state_{i}": leaf for i, leaf in enumerate(leaves)},
                "steps": np.array(self._steps),
                "losses": np.array(self._losses),
            }
        )
