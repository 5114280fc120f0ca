"""Deep ensembles: the same network, trained from several starts."""

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.ensembles import initial_members
from tfp_refine.ensembles import member_training
from tfp_refine.ensembles import optimizers
from tfp_refine.ensembles import trajectory
from tfp_refine.ensembles import weight_ensemble
from tfp_refine.functional import checkpoint as checkpoint_lib

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
    ensemble = tfp_refine.ensembles.deep_ensemble(model, x_train, y_train)
    draws = ensemble.predict(x_test)  # of every member
    ```

    Reference:
        - [Lakshminarayanan et al., 2017](https://arxiv.org/abs/1612.01474)
    """
    _validation.positive_integer("num_members", num_members)
    schedule = member_training.Schedule(
        _validation.positive_integer("steps", steps),
        _validation.positive_integer("batch_size", batch_size),
        optimizers.decay(learning_rate_decay, learning_rate, steps),
        optimizers.Adam(),
    )
    if adversarial_epsilon is not None:
        _validation.positive("adversarial_epsilon", adversarial_epsilon)
    seed = checkpoint_lib.check_seed(seed, checkpoint_dir)
    x, y, _ = functional.arrays.examples(x, y)
    given = model
    model, *start = initial_members.initial_members(
        given, num_members, functional.seeds.key(seed, _INIT)
    )
    # Copies are not compiled.
    compiled = given if isinstance(given, keras.Model) else model
    progress = trajectory.train(
        "deep_ensemble",
        model,
        functional.example_loss.resolve(compiled, loss),
        start,
        (x, y),
        schedule,
        {
            "steps": steps,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "learning_rate_decay": learning_rate_decay,
            "adversarial_epsilon": adversarial_epsilon,
            "bootstrap": bool(bootstrap),
        },
        seed=functional.seeds.key(seed, _TRAINING),
        checkpoint_dir=checkpoint_dir,
        verbose=verbose,
        bootstrap=bool(bootstrap),
        perturbation=_perturbation(x, adversarial_epsilon),
    )
    return weight_ensemble.WeightEnsemble(
        model, progress.state.params, progress.state.others, progress.history()
    )


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
