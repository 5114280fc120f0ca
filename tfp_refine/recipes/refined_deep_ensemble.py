"""A deep ensemble whose members are refined, at several temperatures."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import scipy.special
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import ensembles
from tfp_refine import functional
from tfp_refine import losses
from tfp_refine import posteriors
from tfp_refine import refinement
from tfp_refine.ensembles import initial_members
from tfp_refine.functional import resumable
from tfp_refine.recipes import narrow
from tfp_refine.refinement import objective as objective_lib
from tfp_refine.refinement import settings as settings_lib

# Draws of each member that held-out data are scored by, and examples at a time.
_DRAWS_PER_MEMBER = 10
_BLOCK = 1024
# Random streams, below the seed.
_SPLIT, _NETWORKS, _NOISE, _REFINEMENT, _DRAWS = range(5)


def refined_deep_ensemble(
    model: keras.Model | Callable[[int], keras.Model],
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    class_weight: dict[int, float] | None = None,
    num_members: int = 10,
    steps: int = 20000,
    batch_size: int = 128,
    learning_rate: float = 1e-2,
    learning_rate_decay: str = "cosine",
    kl_scales: Sequence[float] = (3.0, 1.0, 0.3, 0.1),
    held_out_fraction: float = 0.2,
    regularizer: Any = "gaussian_kl",
    initial_scale: float = 0.01,
    estimator: str = "local_reparameterization",
    variance_ratios: Sequence[float] = (0.7,) * 5,
    refine_steps: int = 200,
    refine_learning_rate: float = 1e-2,
    loss: Any = None,
    checkpoint_dir: str | os.PathLike | None = None,
    seed: int | None = None,
    verbose: int = 1,
) -> refinement.RefinedEnsemble:
    """Trains a deep ensemble of plain Keras models, and refines its members.

    Each network of the ensemble gets a narrow posterior, which refinement
    widens where the data allow it. Factors on the KL divergence decide by how
    much: members with a small one are cold, and sharp; those with a large one
    warm, and safe. How many members get which factor is chosen on held-out
    data, by the weights of the mixture that predicts these best: networks are
    trained on the rest of the training data, refined with each factor, and
    scored. Then networks are trained on all data, and refined.

    A noise that is one learned number (`layers.HomoscedasticNoise`) starts, in
    the refinement, from the error of the networks on the held-out data.

    Memory: the data twice, and that of `ensembles.deep_ensemble` and `refine`.

    Args:
        model: Built and compiled `keras.Model` of plain Keras layers, which is
            not changed, or a function of a seed that returns one: as for
            `ensembles.deep_ensemble`.
        x: Training inputs, `[N, ...]` (or nested), or batches of `(x, y)` or
            `(x, y, sample_weight)`, such as a `tf.data.Dataset`, a
            `keras.utils.PyDataset` or a generator, which are read into memory.
        y: Training targets, `[N, ...]`; of several outputs a dict or list.
            `None` for batches.
        sample_weight: As for `refine`.
        class_weight: As for `refine`.
        num_members: `M`, number of networks and of members.
        steps: Training steps of each network. The defaults of this and of the
            rates suit small dense networks.
        batch_size: Examples in a step, of training and refinement.
        learning_rate: Adam's in the training of the networks.
        learning_rate_decay: Of this rate, as for `ensembles.deep_ensemble`.
        kl_scales: Factors on the KL divergence to choose from. With a single
            one no data are held out, and the networks are trained once.
        held_out_fraction: Part of the training data that chooses, in (0, 1).
        regularizer: KL regularizer of kernels and biases, or its name: the
            prior, a Gaussian. Defaults to `N(0, 1)`.
        initial_scale: Standard deviation of the posteriors before they are
            refined; cold ones have it times the square root of their factor.
        estimator: How layers draw in the refinement, as for
            `models.to_bayesian`.
        variance_ratios: As for `refine`.
        refine_steps: Steps of each auxiliary variable, as `steps` of `refine`.
        refine_learning_rate: As `learning_rate` of `refine`.
        loss: As for `refine`. Defaults to the loss that the model was compiled
            with.
        checkpoint_dir: Folder to save progress in, and to continue from.
        seed: Integer that fixes the result; a fresh one if `None`.
        verbose: 0 is silent, 1 shows progress bars, 2 lines.

    Returns:
        ensemble: `RefinedEnsemble` of `M` members. Its `history` also has
            `kl_scale [M]`, and of the choice `kl_scales [K]` and their
            `held_out_weights [K]`.

    Raises:
        ValueError: If an argument is invalid, the data do not fit the model,
            the model cannot get posteriors, the loss is no log likelihood, or
            the folder belongs to other work.
        FloatingPointError: If a training diverges.

    Example:

    ```python
    network = keras.Sequential(
        [
            keras.Input(x_train.shape[1:]),
            keras.layers.Dense(50, "relu"),
            keras.layers.Dense(2),
        ]
    )
    network.compile(loss=tfp_refine.losses.HeteroscedasticGaussianNLL())
    posterior = tfp_refine.refined_deep_ensemble(network, x_train, y_train)
    draws = posterior.predict(x_test)
    ```

    Reference:
        - [Lakshminarayanan et al., 2017](https://arxiv.org/abs/1612.01474)
        - [Havasi et al., 2021](https://doi.org/10.3390/e23111475)
        - [Yao et al., 2018](https://doi.org/10.1214/17-BA1091), the weights
    """
    _validation.all_positive_integers(num_members=num_members, steps=steps)
    kl_scales = _check_kl_scales(kl_scales)
    seed = resumable.check_seed(seed, checkpoint_dir)
    data, num_examples = functional.data.examples(
        x, y, sample_weight, class_weight
    )
    recipe = _Recipe(
        model=model,
        loss=loss,
        training={
            "steps": steps,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "learning_rate_decay": learning_rate_decay,
        },
        conversion={
            "scale": initial_scale,
            "estimator": estimator,
            "regularizer": regularizer,
        },
        refinement={
            "variance_ratios": variance_ratios,
            "steps": refine_steps,
            "batch_size": batch_size,
            "learning_rate": refine_learning_rate,
        },
        folder=checkpoint_dir,
        seed=seed,
        verbose=verbose,
    )
    recipe.check(data)
    weights, raw_noise = np.ones(1), None
    if len(kl_scales) > 1:
        held, rest = _split(data, num_examples, held_out_fraction, seed)
        weights, raw_noise = recipe.choose(held, rest, kl_scales, num_members)
    of_members = np.repeat(kl_scales, ensembles.apportion(weights, num_members))
    refined = recipe.refine(
        recipe.train(data, num_members, "all"),
        data,
        of_members,
        raw_noise,
        "all",
    )
    refined.history |= {
        "kl_scale": of_members[refined.history["members"]],
        "kl_scales": kl_scales,
        "held_out_weights": weights,
    }
    return refined


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Recipe:
    """The parts of the work, and the settings of each."""

    model: Any
    loss: Any
    training: dict[str, Any]
    conversion: dict[str, Any]
    refinement: dict[str, Any]
    folder: str | os.PathLike | None
    seed: int
    verbose: int

    def check(self, data):
        """Raises now the `ValueError`s of a refinement after long training."""
        start = initial_members.initial_members(self.model, 1, self.seed)
        network = posteriors.EnsemblePosterior(*start)
        settings = settings_lib.Settings(**self._settings([1.0], None))
        objective_lib.of_settings(
            self._posteriors(network, data, [1.0]), _given(data), settings
        )

    def choose(self, held, rest, kl_scales, num_members):
        """Weighs factors by predictions of held-out data.

        Returns the weights `[K]`, and the raw value that a homoscedastic noise
        starts from, `[D]`, or `None` without one.
        """
        networks = self.train(rest, num_members, "held_out")
        raw_noise = self._raw_noise(networks, held)
        scores = []
        for kl_scale in kl_scales:
            refined = self.refine(
                networks,
                rest,
                np.full(num_members, kl_scale),
                raw_noise,
                f"held_out_{kl_scale:g}",
            )
            scores.append(self._log_likelihood(refined, held))
        return ensembles.stacking_weights(scores), raw_noise

    def train(self, data, num_members, name):
        """Trains networks, an `EnsemblePosterior` of points."""
        return ensembles.deep_ensemble(
            self.model,
            **_given(data),
            **self.training,
            num_members=num_members,
            loss=self.loss,
            checkpoint_dir=self._checkpoint_dir(name),
            seed=functional.seeds.key(self.seed, _NETWORKS),
            verbose=self.verbose,
        )

    def refine(self, networks, data, kl_scales, raw_noise, name):
        """Refines networks, a `RefinedEnsemble`."""
        return refinement.refine(
            self._posteriors(networks, data, kl_scales, raw_noise),
            **_given(data),
            **self._settings(kl_scales, name),
        )

    def _posteriors(self, networks, data, kl_scales, raw_noise=None):
        """Returns what refinement starts from."""
        return narrow.narrow_posteriors(
            networks,
            kl_scales,
            num_train_examples=functional.data.num_examples(data[0]),
            raw_noise=raw_noise,
            seed=functional.seeds.key(self.seed, _NOISE),
            **self.conversion,
        )

    def _settings(self, kl_scales, name):
        """Returns arguments of `refine`, by name."""
        return {
            **self.refinement,
            "num_members": len(kl_scales),
            "learning_rate_decay": "linear",
            "loss": self.loss,
            "kl_scale": kl_scales,
            "keep_better": True,
            "num_eval_samples": 10,
            "max_eval_examples": 2048,
            "refine_deterministic": True,  # such as the noise
            "checkpoint_dir": self._checkpoint_dir(name),
            "seed": functional.seeds.key(self.seed, _REFINEMENT),
            "verbose": self.verbose,
        }

    def _checkpoint_dir(self, name):
        if None in (self.folder, name):
            return None
        return pathlib.Path(self.folder) / name

    def _raw_noise(self, networks, held):
        """Finds the noise of the size of the networks' errors, raw, `[D]`."""
        x, y, *_ = held
        objective = functional.Objective(networks.view, x, y, self.loss)
        if not narrow.noises(networks.model) or not isinstance(
            objective.loss, losses.HeteroscedasticGaussianNLL
        ):
            return None
        loc, _ = objective.loss.loc_and_scale(
            networks.predict(x, networks.num_members)
        )
        squares = np.square(np.asarray(loc) - np.reshape(y, loc.shape[1:]))
        errors = np.sqrt(np.mean(squares.reshape(-1, squares.shape[-1]), 0))
        return [objective.loss.raw_noise(error) for error in errors]

    def _log_likelihood(self, refined, held):
        """Computes that of each held-out example, nats, `[n]`."""
        view, count = refined.view, _DRAWS_PER_MEMBER * refined.num_members
        members = [refined.weights_of(m) for m in range(refined.num_members)]
        objective = functional.Objective(
            view, loss=self.loss, at=members[0], **_given(held)
        )
        keys = functional.seeds.keys(
            functional.seeds.key(self.seed, _DRAWS), count
        )
        nll = functional.Program(
            lambda params, fixed, key, block: objective.nll(
                block, params, fixed, key, 0
            ),
            varying=(False, False, False, True),
        )
        found = []
        for _, block in functional.streams.blocks(objective.data, _BLOCK):
            values = [
                -nll(*members[draw % len(members)], keys[draw], block).numpy()
                for draw in range(count)
            ]
            found.append(scipy.special.logsumexp(values, axis=0))
        return np.concatenate(found) - math.log(count)


def _check_kl_scales(kl_scales):
    """Returns the factors to choose from, an array `[K]`."""
    kl_scales = [
        _validation.positive("kl_scales", kl_scale) for kl_scale in kl_scales
    ]
    if not kl_scales:
        raise ValueError(
            "`kl_scales` must hold at least one factor. "
            f"Received: kl_scales={kl_scales}"
        )
    return np.array(kl_scales)


def _split(data, num_examples, fraction, seed):
    """Returns held-out data, and the rest."""
    if not 0.0 < fraction < 1.0:
        raise ValueError(
            "`held_out_fraction` must be in (0, 1). "
            f"Received: held_out_fraction={fraction!r}"
        )
    count = math.ceil(fraction * num_examples)
    if count == num_examples:
        raise ValueError(
            "Factors that held-out data choose need at least two training "
            f"examples. Received: {num_examples} and "
            f"held_out_fraction={fraction}"
        )
    rng = np.random.default_rng(functional.seeds.key(seed, _SPLIT))
    rows = rng.permutation(num_examples)
    return _rows(data, rows[:count]), _rows(data, rows[count:])


def _rows(data, rows):
    return keras.tree.map_structure(lambda leaf: tf.gather(leaf, rows), data)


def _given(data):
    """Names the parts of data as functions that take data do."""
    return dict(zip(functional.data.NAMES, data, strict=False))
