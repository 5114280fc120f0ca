"""The posterior of a logistic regression with two weights."""

import re
from typing import Any

import keras
import numpy as np
import scipy.optimize
import tensorflow as tf

from tfp_refine import functional
from tfp_refine import laplace
from tfp_refine import layers
from tfp_refine import metrics
from tfp_refine import refinement
from tfp_refine import regularizers
from tfp_refine import sampling
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.laplace import config as config_lib
from tfp_refine.experiments.systems import laplace as systems
from tfp_refine.experiments.systems import registry

# Clusters of a class, and their distance from the origin.
_CENTERS, _DISTANCE = np.eye(2), 2.0
# Random streams, below the seed.
_DATA, _REFINEMENT, _NUTS, _VI, _SAMPLES = range(30, 35)
_LEARNING_RATE = 0.05
_NUM_CHAINS, _NUM_SAMPLES = 4, 1000
_RATIOS, _STEPS = ("0.7*5",), 200
_FIELDS = ("toy_points", "toy_prior_scale")


def run(
    config: config_lib.Config, folder: folder_lib.Folder
) -> tuple[list[tuple], dict[str, list[list[float]]]]:
    """Draws missing samples.

    Returns:
        rows: As for `tables.frame`: the squared distance `mmd` to half of the
            samples of NUTS, the bound `elbo` (nats), and diagnostics.
        details: Dict from a system to its samples, `[S][2]`.
    """
    toy, records = Toy(config), {}
    own_fields = {"vi": ("toy_steps",), "laplace": (), "nuts": ()}
    for name, own in systems_of(config).items():
        method = registry.SYSTEMS[name.partition("(")[0]]
        decisive = own_fields.get(name, method.fields)
        digest = own.digest({*_FIELDS, *decisive})
        slug = re.sub(r"\W+", "_", name).strip("_")
        records[name] = folder.once(
            f"samples/{slug}_{digest}",
            lambda name=name, own=own: toy.sample(name, own),
        )
    samples = {name: record["samples"] for name, record in records.items()}
    nuts = np.asarray(samples["nuts"])
    reference, other = nuts[::2], nuts[1::2]
    rows = []
    for name, record in records.items():
        drawn = other if name == "nuts" else np.asarray(samples[name])
        values = record["metrics"] | {
            "mmd": metrics.mmd(reference, drawn[: len(reference)]),
            "seconds": record["seconds"],
        }
        rows += [("toy", name, 0, key, value) for key, value in values.items()]
    return rows, samples


def systems_of(config: config_lib.Config) -> dict[str, config_lib.Config]:
    """Returns the configurations of the systems, the reference last."""
    names = registry.ALL if config.systems == ("all",) else config.systems
    found = {"laplace": config, "vi": config}
    for name in names:
        expression = registry.parse(name, type(config))
        own = registry.configured(expression, config)
        argument = expression.argument
        if (argument and argument.name == "laplace") and (
            expression.name == "refined"
            or (expression.name == "flows" and own.flow_base == "laplace")
        ):
            found[registry.short(expression)] = own
    return found | {"nuts": config}


class Toy:
    """Two classes of two clusters each, and a classifier without a bias.

    Attributes:
        x: Inputs, `[N, 2]`.
        y: Classes, 0 and 1, `[N]`.
    """

    def __init__(self, config):
        self._config = config
        rng = np.random.default_rng(self._seed(_DATA))
        count = config.toy_points
        self.y = np.arange(count) % 2
        centers = _CENTERS[rng.integers(0, len(_CENTERS), count)]
        signs = 2.0 * self.y[:, np.newaxis] - 1.0
        x = _DISTANCE * signs * centers + rng.normal(size=(count, 2))
        self.x = x.astype(np.float32)

    def log_joint(self, theta: np.ndarray) -> np.ndarray:
        """Computes the log posterior of weights `[..., 2]`, but for a constant.

        Nats, `[...]`.
        """
        signed = (2.0 * self.y - 1.0) * (theta @ self.x.T.astype(np.float64))
        scale = self._config.toy_prior_scale
        prior = np.sum(np.square(theta / scale), axis=-1)
        return -np.sum(np.logaddexp(0.0, -signed), axis=-1) - 0.5 * prior

    def sample(self, name: str, config: config_lib.Config) -> dict[str, Any]:
        """Fits a system, by its own configuration, and draws from it.

        Returns:
            record: Dict with `"samples"`, `[S][2]`, and `"metrics"`.
        """
        count, seed = _NUM_CHAINS * _NUM_SAMPLES, self._seed(_SAMPLES)
        if name == "vi":
            samples = self._variational(count, seed)
            return {"samples": samples.tolist(), "metrics": {}}
        posterior = self._laplace()
        if name == "nuts":
            posterior = sampling.nuts_last_layer(
                posterior,
                num_chains=_NUM_CHAINS,
                num_warmup=_NUM_SAMPLES,
                num_samples=_NUM_SAMPLES,
                target_accept_prob=0.95,
                seed=self._seed(_NUTS),
                verbose=config.verbose,
            )
            found = {k: float(v) for k, v in posterior.diagnostics.items()}
        elif name.startswith("refined"):
            posterior = self._refined(posterior, config)
            found = {"elbo": float(np.mean(posterior.elbo_final))}
        else:
            if name != "laplace":
                posterior = systems.refine(
                    posterior, config, self._seed(_REFINEMENT)
                )
            found = {"elbo": float(np.mean(posterior.elbo(1000, seed=seed)))}
        samples = posterior.sample(count, seed=seed)
        return {"samples": samples.tolist(), "metrics": found}

    def _seed(self, stream):
        return functional.seeds.key(self._config.seed, stream)

    def _laplace(self):
        """Fits Laplace's approximation at the mode."""
        mode = scipy.optimize.minimize(
            lambda theta: -self.log_joint(theta), np.zeros(2), tol=1e-12
        ).x
        model = keras.Sequential(
            [keras.Input((2,)), keras.layers.Dense(1, use_bias=False)]
        )
        model.layers[-1].set_weights([mode[:, np.newaxis]])
        return laplace.LastLayerLaplace(
            model,
            "classification",
            prior_precision=self._config.toy_prior_scale**-2,
        ).fit(self.x, self.y, verbose=0)

    def _refined(self, posterior, config):
        """Refines Laplace's approximation through auxiliary variables."""
        return refinement.refine(
            posterior,
            self.x,
            self.y[:, np.newaxis].astype(np.float32),
            loss=keras.losses.BinaryCrossentropy(from_logits=True),
            num_members=config.num_members,
            variance_ratios=fields.ratios(config.variance_ratios or _RATIOS),
            steps=config.refine_steps or _STEPS,
            learning_rate=config.refine_learning_rate,
            learning_rate_decay=config.refine_learning_rate_decay,
            num_eval_samples=config.num_eval_samples,
            seed=self._seed(_REFINEMENT),
            verbose=config.verbose,
        )

    def _variational(self, count, seed):
        """Trains a factorized Gaussian, and draws from it."""
        config = self._config
        layer = layers.DenseReparameterization(
            1,
            bias_posterior=None,
            use_bias=False,
            kernel_regularizer=regularizers.GaussianKL(config.toy_prior_scale),
            num_train_examples=len(self.y),
            seed=self._seed(_VI),
        )
        model = keras.Sequential([keras.Input((2,)), layer])
        model.compile(
            keras.optimizers.Adam(
                keras.optimizers.schedules.CosineDecay(
                    _LEARNING_RATE, config.toy_steps
                )
            ),
            keras.losses.BinaryCrossentropy(from_logits=True),
            steps_per_execution=min(100, config.toy_steps),
        )
        batch = self.x, self.y[:, np.newaxis].astype(np.float32)
        model.fit(
            tf.data.Dataset.from_tensors(batch).repeat(),
            steps_per_epoch=config.toy_steps,
            shuffle=False,
            verbose=0,
        )
        (weight,) = layer.variational_weights
        loc, scale = (
            np.ravel(value).astype(np.float64)
            for value in (weight.loc, weight.scale)
        )
        noise = np.random.default_rng(seed).standard_normal((count, 2))
        return loc + scale * noise
