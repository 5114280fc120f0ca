"""A deep ensemble whose members are refined, each in several ways."""

import dataclasses
import itertools
import math
import os
import pathlib
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import scipy.optimize
import scipy.special
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import ensembles
from tfp_refine import functional
from tfp_refine import losses
from tfp_refine import posteriors
from tfp_refine import refinement
from tfp_refine.ensembles import adversarial
from tfp_refine.ensembles import initial_members
from tfp_refine.functional import resumable
from tfp_refine.functional import update_rules
from tfp_refine.recipes import narrow
from tfp_refine.refinement import objective as objective_lib
from tfp_refine.refinement import settings as settings_lib

# Draws of each member that held-out data are scored by, and examples at a time.
_DRAWS_PER_MEMBER = 10
_BLOCK = 1024
# Least and greatest raw value of a noise to start from.
_RAW_NOISES = (-12.0, 12.0)
# Random streams, below the seed.
_SPLIT, _NETWORKS, _NOISE, _REFINEMENT, _DRAWS = range(5)


def refined_deep_ensemble(
    model: keras.Model | Callable[[int], keras.Model],
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    class_weight: dict[int, float] | None = None,
    num_networks: int = 10,
    steps: int = 20000,
    batch_size: int = 128,
    learning_rate: float = 1e-2,
    learning_rate_decay: str = "cosine",
    adversarial_epsilon: float | None = None,
    kl_scales: Sequence[float] = (3.0, 0.3, 0.1),
    short_training: float | None = 0.03,
    held_out_fraction: float = 0.2,
    regularizer: Any = "gaussian_kl",
    initial_scale: float = 0.01,
    estimator: str = "local_reparameterization",
    variance_ratios: Sequence[float] = (0.7,) * 5,
    refine_steps: int | refinement.AdaptiveSteps = 1000,
    refine_learning_rate: float = 1e-2,
    loss: Any = None,
    checkpoint_dir: str | os.PathLike | None = None,
    seed: int | None = None,
    verbose: int = 1,
) -> refinement.RefinedEnsemble:
    """Trains a deep ensemble of plain Keras models, and refines its members.

    Each network gets a narrow posterior, which refinement widens where the data
    allow it. A factor on the KL divergence sets how far: members with a factor
    below 1 are *cold*, with sharper predictions; those with a factor above 1
    are *warm*, with wider ones. Each network is refined with every factor. The
    same networks, trained for a part of the steps only, are refined with the
    factor 1: where noise is most of the variance, long training overfits more
    than refinement undoes.

    Held-out data weigh these candidates: networks are trained on the rest of
    the training data and refined, and the mixture that predicts the held-out
    data best gives the weights. Where the model predicts the noise of each
    example (`losses.HeteroscedasticGaussianNLL`) they also choose the mixture's
    `spread`, as errors of networks cancel in part. Then networks are trained on
    all data, and refined. Warm members keep a cold ensemble from great errors,
    even with little weight.

    A noise that is one learned number for each target
    (`layers.HomoscedasticNoise`) collapses in such networks. In the refinement
    it starts from the value that is most likely for the held-out data.

    Memory: twice the data, and the memory of `ensembles.deep_ensemble` and
    `refine`, whose members are as many as networks and candidates multiplied.

    Args:
        model: Built and compiled `keras.Model` of plain Keras layers, which is
            not changed, or a function of a seed that returns one: as for
            `ensembles.deep_ensemble`. Its regularizers count in the training of
            the networks; `keras.regularizers.L2(0.5 / N)` is the prior
            `N(0, 1)`.
        x: Training inputs, `[N, ...]` (or nested), or batches of `(x, y)` or
            `(x, y, sample_weight)`, such as a `tf.data.Dataset`, a
            `keras.utils.PyDataset` or a generator, which are read into memory.
        y: Training targets, `[N, ...]`; of several outputs a dict or list.
            `None` for batches.
        sample_weight: As for `refine`.
        class_weight: As for `refine`.
        num_networks: Number of networks in the ensemble. Defaults to `10`.
        steps: Training steps of each network. Defaults to `20000`, which, as
            the rates, suits small dense networks.
        batch_size: Examples in a step, of training and refinement. Defaults to
            `128`.
        learning_rate: Adam's in the training of the networks. Defaults to
            `1e-2`.
        learning_rate_decay: Decay of this rate, as for
            `ensembles.deep_ensemble`. Defaults to `"cosine"`.
        adversarial_epsilon: Trains the networks on perturbed inputs too, as for
            `ensembles.deep_ensemble`, at twice the cost of a step. Defaults to
            `None`, without.
        kl_scales: Factors on the KL divergence, positive numbers. Defaults to
            `(3.0, 0.3, 0.1)`.
        short_training: Part of `steps`, in (0, 1), after which networks are
            refined with the factor 1, too; `None` for no such networks. Then a
            single factor needs no held-out data, unless there is a
            homoscedastic noise, and networks are trained once. Defaults to
            `0.03`.
        held_out_fraction: Part of the training data that chooses, in (0, 1).
            Defaults to `0.2`.
        regularizer: KL regularizer of kernels and biases, or its name: the
            prior, a Gaussian. Defaults to `N(0, 1)`.
        initial_scale: Standard deviation of the posteriors before they are
            refined; cold ones have it times the square root of their factor.
            Defaults to `0.01`.
        estimator: Estimator of the layers in the refinement, as for
            `models.to_bayesian`. Defaults to `"local_reparameterization"`.
        variance_ratios: As for `refine`.
        refine_steps: Steps of each auxiliary variable, as `steps` of `refine`.
            Defaults to `1000`.
        refine_learning_rate: Learning rate of the refinement, as
            `learning_rate` of `refine`. Defaults to `1e-2`.
        loss: As for `refine`, but with one value for each example where data
            are held out. Defaults to the loss that the model was compiled with.
        checkpoint_dir: Folder to save progress in, and to continue from.
        seed: Integer that fixes the result; a fresh one if `None`.
        verbose: 0 is silent, 1 shows progress bars, 2 lines.

    Returns:
        ensemble: `RefinedEnsemble` of `M` members with `member_weights`, all
            networks for each candidate with a weight. With several candidates
            its `spread` may be below 1. Its `history` also has the factor of
            each member, `kl_scale [M]`, and its `candidate [M]`, a number from
            0 to `K - 1`; and of the `K` candidates `candidate_steps [K]`, those
            of the training, `candidate_kl_scales [K]`, and
            `held_out_weights [K]`.

    Raises:
        ValueError: If an argument is invalid, the data do not fit the model,
            the model cannot get posteriors, the loss is no log likelihood, or
            the folder belongs to other work.
        FloatingPointError: If a training diverges, or the refinements of all
            candidates do.

    Warns:
        RuntimeWarning: If all members of one candidate diverge, which is left
            out.

    Example:

    ```python
    prior = keras.regularizers.L2(0.5 / len(x_train))
    network = keras.Sequential(
        [
            keras.Input(x_train.shape[1:]),
            keras.layers.Dense(50, "relu", kernel_regularizer=prior),
            keras.layers.Dense(2, kernel_regularizer=prior),
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
        - [Van Schaeybroeck and Vannitsem, 2015](
            https://doi.org/10.1002/qj.2397), the spread
    """
    _validation.all_positive_integers(num_networks=num_networks, steps=steps)
    _validation.positive("learning_rate", learning_rate)
    _validation.positive("refine_learning_rate", refine_learning_rate)
    _validation.one_of(
        "learning_rate_decay", learning_rate_decay, update_rules.DECAYS
    )
    if not isinstance(refine_steps, refinement.AdaptiveSteps):
        _validation.positive_integer("refine_steps", refine_steps)
    candidates = _candidates(kl_scales, short_training, steps)
    if adversarial_epsilon is not None:
        _validation.positive("adversarial_epsilon", adversarial_epsilon)
    if checkpoint_dir is not None:
        checkpoint_dir = _validation.path("checkpoint_dir", checkpoint_dir)
    seed = resumable.check_seed(seed, checkpoint_dir)
    data, num_examples = functional.data.examples(
        x, y, sample_weight, class_weight
    )
    recipe = _Recipe(
        model=model,
        loss=loss,
        num_networks=num_networks,
        training={
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "learning_rate_decay": learning_rate_decay,
            "adversarial_epsilon": adversarial_epsilon,
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
    objective, settings = recipe.check(data)
    held = rest = None
    if len(candidates) > 1 or narrow.noises(objective.view.model):
        objective.check_examples()
        held, rest = _split(data, num_examples, held_out_fraction, seed)
    checkpoint = recipe.open_checkpoint(
        objective,
        {
            **settings.depends_on(),
            "steps": [candidate.steps for candidate in candidates],
            "kl_scales": [candidate.kl_scale for candidate in candidates],
            "held_out_fraction": held_out_fraction,
        },
    )
    weights, spread, raw_noises = np.ones(1), 1.0, {}
    if held is not None:
        weights, spread, raw_noises = recipe.choose(
            held, rest, candidates, objective.loss
        )
    kept = {n: c for n, c in enumerate(candidates) if weights[n] > 0.0}
    networks = recipe.train(data, kept.values(), "all")
    refined = recipe.refine(networks, data, kept, raw_noises, "all")
    del checkpoint  # whose lock held until now
    _weigh(refined, weights)
    refined.spread = spread
    refined.history |= {
        "candidate_steps": np.array([each.steps for each in candidates]),
        "candidate_kl_scales": np.array([each.kl_scale for each in candidates]),
        "held_out_weights": weights,
    }
    return refined


class _Candidate(NamedTuple):
    """Steps of training and factor of the refinement of some members."""

    steps: int
    kl_scale: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Recipe:
    """The parts of the work, and the settings of each."""

    model: Any
    loss: Any
    num_networks: int
    training: dict[str, Any]
    conversion: dict[str, Any]
    refinement: dict[str, Any]
    folder: pathlib.Path | None
    seed: int
    verbose: int

    def check(self, data):
        """Raises now the `ValueError`s of a refinement after long training.

        Returns the objective and the settings of a refinement of an untrained
        network.
        """
        start = initial_members.initial_members(self.model, 1, self.seed)
        network = posteriors.EnsemblePosterior(*start)
        if any(
            getattr(layer, "variational_weights", ())
            for layer in network.model._flatten_layers()
        ):
            raise ValueError(
                "`model` must be of plain Keras layers, which get posteriors "
                f"later. Received: the model '{network.model.name}', which has "
                "variational layers"
            )
        if self.training["adversarial_epsilon"] is not None:
            adversarial.check_inputs(data)
        settings = settings_lib.Settings(**self._settings([1.0], None))
        objective = objective_lib.of_settings(
            self._posteriors(network, data, [1.0]), _given(data), settings
        )
        return objective, settings

    def open_checkpoint(self, objective, settings):
        """Opens the record of the work in the folder, or returns `None`.

        Those of its parts compare what is not among these settings.
        """
        checkpoint = resumable.open_checkpoint(
            self.folder,
            "refined_deep_ensemble",
            {
                **{f"training {name}": v for name, v in self.training.items()},
                **settings,
                "seed": self.seed,
                "num_networks": self.num_networks,
                # Model and loss are seen through their values.
                "likelihood": resumable.rounded(objective.head_nll),
            },
            objective.identity(),
        )
        if checkpoint is not None and checkpoint.load() is None:
            checkpoint.save({})
        return checkpoint

    def choose(self, held, rest, candidates, loss):
        """Weighs candidates by predictions of held-out data.

        Returns the weights `[K]`, the spread of their mixture, and the raw
        values that a homoscedastic noise starts from, `[D]` or `None` without
        one, by the steps of the networks.
        """
        networks = self.train(rest, candidates, "held_out")
        raw_noises = {
            steps: self._raw_noise(of_steps, held)
            for steps, of_steps in networks.items()
        }
        if len(candidates) == 1:
            return np.ones(1), 1.0, raw_noises
        refined = self.refine(
            networks, rest, dict(enumerate(candidates)), raw_noises, "held_out"
        )
        of_members = self._log_likelihood(refined, held)
        weights, scores = np.zeros(len(candidates)), []
        for number, candidate in enumerate(candidates):
            values = of_members[refined.history["candidate"] == number]
            if not len(values):
                _validation.warn(
                    f"No member gets the factor {candidate.kl_scale} after "
                    f"{candidate.steps} steps of training: all such "
                    "refinements of networks without the held-out data diverge",
                    RuntimeWarning,
                )
                continue
            weights[number] = 1.0
            scores.append(_log_mean_exp(values))
        weights[weights > 0.0] = ensembles.stacking_weights(
            scores, sample_weight=functional.example_weights.apart(held)[1]
        )
        _weigh(refined, weights)
        is_homoscedastic = any(raw is not None for raw in raw_noises.values())
        if not is_homoscedastic and isinstance(
            loss, losses.HeteroscedasticGaussianNLL
        ):
            refined.fit_spread(
                **_given(held),
                loss=self.loss,
                num_samples=_DRAWS_PER_MEMBER * refined.num_members,
                seed=functional.seeds.key(self.seed, _DRAWS),
            )
        return weights, refined.spread, raw_noises

    def train(self, data, candidates, name):
        """Trains networks, `EnsemblePosterior`s of points by their steps."""
        return {
            steps: ensembles.deep_ensemble(
                self.model,
                **_given(data),
                **self.training,
                steps=steps,
                num_members=self.num_networks,
                loss=self.loss,
                checkpoint_dir=self._checkpoint_dir(name, f"steps_{steps}"),
                seed=functional.seeds.key(self.seed, _NETWORKS),
                verbose=self.verbose,
            )
            for steps in dict.fromkeys(each.steps for each in candidates)
        }

    def refine(self, networks, data, candidates, raw_noises, name):
        """Refines networks of numbered candidates, a `RefinedEnsemble`.

        Its history has the number and the factor of each member's candidate.
        """
        numbers = np.repeat([*candidates], self.num_networks)
        scales = np.array([candidates[number].kl_scale for number in numbers])
        starts = [
            self._posteriors(
                networks[steps],
                data,
                [c.kl_scale for c in group for _ in range(self.num_networks)],
                raw_noises.get(steps),
            )
            for steps, group in itertools.groupby(
                candidates.values(), lambda candidate: candidate.steps
            )
        ]
        refined = refinement.refine(
            posteriors.concatenate(starts),
            **_given(data),
            **self._settings(scales, name),
        )
        members = refined.history["members"]  # but for those that diverged
        refined.history["candidate"] = numbers[members]
        refined.history["kl_scale"] = scales[members]
        return refined

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
            "loss": self.loss,
            "kl_scale": kl_scales,
            "refine_deterministic": True,  # such as the noise
            "checkpoint_dir": self._checkpoint_dir(name),
            "seed": functional.seeds.key(self.seed, _REFINEMENT),
            "verbose": self.verbose,
        }

    def _checkpoint_dir(self, name, *names):
        if None in (self.folder, name):
            return None
        return self.folder.joinpath(name, *names)

    def _raw_noise(self, networks, held):
        """Finds the most likely homoscedastic noise of networks, raw, `[D]`.

        It is `None` without such a noise.
        """
        view = networks.view
        indices = np.flatnonzero(
            narrow.places(view, narrow.noises(networks.model))
        )
        if not len(indices):
            return None
        objective = functional.Objective(view, loss=self.loss, **_given(held))

        def mean_nll(raw, params, fixed, block):
            with tf.GradientTape() as tape:
                tape.watch(raw)
                params = tf.tensor_scatter_nd_update(
                    params, indices[:, np.newaxis], tf.cast(raw, params.dtype)
                )
                nll = tf.reduce_sum(objective.nll(block, params, fixed, 0, 0))
                nll = tf.cast(nll, raw.dtype) / objective.num_examples
            return nll, tape.gradient(nll, raw)

        program = functional.Program(
            mean_nll, varying=(False, False, False, True)
        )

        def of_all(raw):
            found = [
                program(raw, *networks.weights_of(member), block)
                for _, block in functional.streams.blocks(
                    objective.data, _BLOCK
                )
                for member in range(networks.num_members)
            ]
            return tuple(
                np.mean([part[i].numpy() for part in found], 0)
                for i in range(2)
            )

        return scipy.optimize.minimize(
            of_all,
            np.zeros(len(indices)),
            jac=True,
            method="L-BFGS-B",
            bounds=[_RAW_NOISES] * len(indices),
        ).x

    def _log_likelihood(self, refined, held):
        """Computes that of held-out examples under each member, `[M, n]`.

        Draws of a member are a mixture. Weights of examples do not count; those
        of positions do.
        """
        held, _ = functional.example_weights.apart(held)
        view, count = refined.view, refined.num_members
        members = [refined.weights_of(member) for member in range(count)]
        objective = functional.Objective(
            view, loss=self.loss, at=members[0], **_given(held)
        )
        keys = functional.seeds.keys(
            functional.seeds.key(self.seed, _DRAWS), count * _DRAWS_PER_MEMBER
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
                -nll(*members[draw % count], key, block).numpy()
                for draw, key in enumerate(keys)
            ]
            found.append(
                _log_mean_exp(np.reshape(values, (-1, count, len(values[0]))))
            )
        return np.concatenate(found, axis=-1)


def _weigh(refined, weights):
    """Gives the members of each candidate its weight, in equal parts."""
    numbers = refined.history["candidate"]
    shares = weights[numbers] / np.bincount(numbers)[numbers]
    refined.member_weights = shares / shares.sum()


def _log_mean_exp(values):
    return scipy.special.logsumexp(values, axis=0) - math.log(len(values))


def _candidates(kl_scales, short_training, steps):
    """Returns what the arguments ask for, a list of `K` `_Candidate`s."""
    found = _validation.array("kl_scales", kl_scales, None)
    if np.any(found <= 0.0) or len(np.unique(found)) < len(found):
        raise ValueError(
            "`kl_scales` must be positive numbers, all different. "
            f"Received: kl_scales={kl_scales!r}"
        )
    candidates = [
        _Candidate(int(steps), kl_scale) for kl_scale in found.tolist()
    ]
    if short_training is not None:
        part = _validation.proportion(
            "short_training", short_training, one=False
        )
        candidates.append(_Candidate(max(1, round(part * steps)), 1.0))
    return [*dict.fromkeys(candidates)]  # each once


def _split(data, num_examples, fraction, seed):
    """Returns held-out data, and the rest."""
    fraction = _validation.proportion("held_out_fraction", fraction, one=False)
    count = math.ceil(fraction * num_examples)
    if count == num_examples:
        raise ValueError(
            "Held-out data need at least two training examples. Received: "
            f"{num_examples} examples and held_out_fraction={fraction}"
        )
    rng = np.random.default_rng(functional.seeds.key(seed, _SPLIT))
    rows = rng.permutation(num_examples)
    parts = _rows(data, rows[:count]), _rows(data, rows[count:])
    for part in parts:
        if len(part) > 2 and not any(
            np.any(leaf) for leaf in keras.tree.flatten(part[2])
        ):
            raise ValueError(
                "Held-out examples, and the rest, need one with a weight above "
                f"0. Received: {count} of {num_examples} examples held out by "
                f"held_out_fraction={fraction}, with too few weights above 0"
            )
    return parts


def _rows(data, rows):
    return keras.tree.map_structure(lambda leaf: tf.gather(leaf, rows), data)


def _given(data):
    """Names the parts of data as functions that take data do."""
    return dict(zip(functional.data.NAMES, data, strict=False))
