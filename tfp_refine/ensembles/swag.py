"""Stochastic weight averaging with a Gaussian around the average."""

import keras
import numpy as np

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.ensembles import ensemble_file
from tfp_refine.ensembles import member_training
from tfp_refine.ensembles import moving_statistics
from tfp_refine.ensembles import optimizers
from tfp_refine.ensembles import snapshot_moments
from tfp_refine.ensembles import trajectory
from tfp_refine.ensembles import weight_ensemble
from tfp_refine.functional import checkpoint as checkpoint_lib

_ARRAYS = ("mean", "variance", "deviations", "others")


def swag(
    model,
    x,
    y=None,
    *,
    num_snapshots=40,
    steps_per_snapshot=None,
    rank=20,
    batch_size=128,
    learning_rate=0.01,
    momentum=0.9,
    loss=None,
    checkpoint_dir=None,
    seed=None,
    verbose=1,
):
    """Fits Gaussians to the course of gradient descent from trained weights.

    From a deep ensemble this is MultiSWAG: a Gaussian around each member, all
    fitted in one compiled program. Memory: the data, and `num_snapshots` copies
    of the weights.

    Args:
        model: Trained `keras.Model`, which is not changed, or a
            `WeightEnsemble`.
        x: Training inputs, `[N, ...]` (or nested), or a finite, batched
            `tf.data.Dataset` of `(x, y)`, which is read into memory.
        y: Training targets, `[N, ...]`; `None` for a dataset.
        num_snapshots: Weights that the moments are of. Defaults to `40`.
        steps_per_snapshot: Steps between two. Defaults to those of an epoch.
        rank: The last snapshots, whose deviations from the running mean are the
            low-rank part of the covariance. Defaults to `20`.
        batch_size: Examples in a step. Defaults to `128`.
        learning_rate: Of gradient descent, constant. Defaults to `0.01`.
        momentum: Of gradient descent. Defaults to `0.9`.
        loss: Negative log likelihood: Keras loss, its name, or a callable
            `(y_true, y_pred) -> [B]`, nats. Defaults to the loss that the model
            was compiled with. The model's regularization losses are added.
        checkpoint_dir: Folder to save progress in, and to continue from.
        seed: Integer that fixes the result; a fresh one if `None`.
        verbose: 0 is silent, 1 a progress bar, 2 a line at the end.

    Returns:
        posterior: `SWAG`.

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
    for name, value in (
        ("num_snapshots", num_snapshots),
        ("rank", rank),
        ("batch_size", batch_size),
    ):
        _validation.positive_integer(name, value)
    if not 2 <= rank <= num_snapshots:
        raise ValueError(
            "`rank` must be from 2 to `num_snapshots`. Received: "
            f"rank={rank}, num_snapshots={num_snapshots}"
        )
    _validation.positive("learning_rate", learning_rate)
    _validation.proportion("momentum", momentum, one=False)
    seed = checkpoint_lib.check_seed(seed, checkpoint_dir)
    model, start, compiled = _start(model)
    x, y, num_examples = functional.arrays.examples(x, y)
    if steps_per_snapshot is None:
        steps_per_snapshot = max(1, num_examples // batch_size)
    _validation.positive_integer("steps_per_snapshot", steps_per_snapshot)
    steps = num_snapshots * steps_per_snapshot
    progress = trajectory.train(
        "swag",
        model,
        functional.example_loss.resolve(compiled, loss),
        start,
        (x, y),
        member_training.Schedule(
            steps,
            batch_size,
            optimizers.decay("constant", learning_rate, steps),
            optimizers.Momentum(momentum),
        ),
        {
            "num_snapshots": num_snapshots,
            "steps_per_snapshot": steps_per_snapshot,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "momentum": momentum,
        },
        seed=seed,
        checkpoint_dir=checkpoint_dir,
        verbose=verbose,
        collect=range(steps_per_snapshot, steps + 1, steps_per_snapshot),
    )
    snapshots = np.stack([params for params, _ in progress.snapshots], axis=1)
    return SWAG(
        model,
        *snapshot_moments.moments(snapshots, rank),
        progress.state.others,
        x,
    )


class SWAG:
    """Gaussians of low rank and a diagonal, with equal weights.

    Made by `swag`, or loaded from a file; not usually constructed.

    Args:
        model: Built `keras.Model`, of which only the architecture matters.
        mean: `[M, P]`, in the order of `model.trainable_weights`.
        variance: `[M, P]`.
        deviations: `[M, K, P]`.
        others: Other weights, such as moving averages, `[M, V]`.
        x: Training inputs, from which moving averages are computed anew for
            each draw; may be `None` for models without them.

    Attributes:
        mean: Means, array `[M, P]`.
        variance: Variances of each weight, array `[M, P]`; half of the
            covariance.
        deviations: Roots of the other half, times `sqrt(K - 1)`, array
            `[M, K, P]`.
        x: Training inputs.
    """

    def __init__(self, model, mean, variance, deviations, others, x=None):
        self.mean, self.variance, self.deviations = mean, variance, deviations
        self._others = others
        self.x = x
        self._model = model
        self._weights = functional.ModelWeights(model)

    def sample(self, num_samples, seed=None):
        """Draws trainable weights.

        Args:
            num_samples: `S`, number of draws; draw `s` is of the Gaussian
                `s % M`.
            seed: Integer that fixes them; fresh ones if `None`.

        Returns:
            params: Array `[S, P]`.

        Raises:
            ValueError: If an argument is invalid.
        """
        _validation.positive_integer("num_samples", num_samples)
        rng = np.random.default_rng(functional.seeds.check(seed))
        rank = self.deviations.shape[1]
        draws = np.empty((num_samples, self.mean.shape[1]), self.mean.dtype)
        for number in range(num_samples):
            one = number % len(self.mean)
            diagonal = rng.standard_normal(draws.shape[1])
            low_rank = rng.standard_normal(rank) / np.sqrt(rank - 1.0)
            draws[number] = self.mean[one] + np.sqrt(0.5) * (
                np.sqrt(self.variance[one]) * diagonal
                + low_rank @ self.deviations[one]
            )
        return draws

    def ensemble(self, num_samples, seed=None):
        """Draws members.

        Args:
            num_samples: `S`, number of draws.
            seed: Integer that fixes them; fresh ones if `None`.

        Returns:
            ensemble: `WeightEnsemble` of `S` members, whose moving averages,
                those of batch normalization, are of the training inputs.

        Raises:
            ValueError: If an argument is invalid, or training inputs are not
                known.
        """
        params = self.sample(num_samples, seed)
        others = self._others[np.arange(num_samples) % len(self._others)]
        if others.shape[1]:
            if self.x is None:
                raise ValueError(
                    "Training inputs are not saved with the posterior, and the "
                    "model has moving averages of them: set `x` again."
                )
            others = moving_statistics.recompute(
                self._weights, params, others, self.x
            )
        return weight_ensemble.WeightEnsemble(self._model, params, others, {})

    def predictive_draws(self, x, num_samples, seed=None, batch_size=1024):
        """Draws what the model returns; see `tfp_refine.predict`.

        Args:
            x: Inputs, `[N, ...]` (or nested).
            num_samples: `S`, number of draws.
            seed: Integer that fixes the draws; fresh ones if `None`.
            batch_size: Examples computed at a time. Defaults to `1024`.

        Returns:
            draws: `numpy` array `[S, N, ...]` (or nested).

        Raises:
            ValueError: As for `ensemble`, or if `x` does not fit the model.
        """
        seed = functional.seeds.check(seed)
        members = self.ensemble(num_samples, seed)
        return members.predictive_draws(x, num_samples, seed, batch_size)

    def save(self, path):
        """Saves the posterior to a file, for `load`.

        Args:
            path: File; its usual ending is `.npz`. Training inputs are not
                saved, nor is the model.

        Raises:
            ValueError: If it cannot be written.
        """
        values = (self.mean, self.variance, self.deviations, self._others)
        ensemble_file.write(
            path,
            type(self).__name__,
            self._model,
            dict(zip(_ARRAYS, values, strict=True)),
        )

    @classmethod
    def load(cls, path, model):
        """Loads what `save` saved.

        Args:
            path: File.
            model: Built `keras.Model` of the same architecture.

        Returns:
            posterior: `SWAG`.

        Raises:
            ValueError: If the file cannot be read, or is of another model.
        """
        arrays = ensemble_file.read(path, cls.__name__, model)
        return cls(model, *(arrays[name] for name in _ARRAYS))


def _start(model):
    """Returns a model, members' weights and what was compiled."""
    if isinstance(model, weight_ensemble.WeightEnsemble):
        return model.model, (model.params, model.others), model.model
    if not isinstance(model, keras.Model):
        raise ValueError(
            "`model` must be a keras.Model or a WeightEnsemble. "
            f"Received: {type(model).__name__}"
        )
    params, others = functional.ModelWeights(model).values()
    return model, (params[np.newaxis], others[np.newaxis]), model
