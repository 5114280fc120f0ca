"""The posterior of a logistic regression with two weights."""

import keras
import numpy as np
import scipy.optimize
import tensorflow as tf
from absl import flags

from tfp_refine import functional
from tfp_refine import laplace
from tfp_refine import layers
from tfp_refine import metrics
from tfp_refine import regularizers
from tfp_refine import sampling
from tfp_refine.experiments import laplace_flags
from tfp_refine.experiments import posterior_diagnostics
from tfp_refine.laplace import refinement

FLAGS = flags.FLAGS
# Clusters of a class, and their distance from the origin.
_CENTERS, _DISTANCE = np.eye(2), 2.0
# Random streams, each with a number of its own below the seed.
_DATA, _REFINEMENT, _NUTS, _VB, _SAMPLES = range(30, 35)
_LEARNING_RATE = 0.05
_NUM_CHAINS, _NUM_SAMPLES = 4, 1000


class Toy:
    """The task "toy": two classes of two clusters each, without a bias.

    Attributes:
        x: Inputs, `[N, 2]`.
        y: Classes, 0 and 1, `[N]`.
    """

    def __init__(self):
        rng = np.random.default_rng(functional.seeds.key(FLAGS.seed, _DATA))
        count = FLAGS.toy_points
        self.y = np.arange(count) % 2
        centers = _CENTERS[rng.integers(0, len(_CENTERS), count)]
        signs = 2.0 * self.y[:, np.newaxis] - 1.0
        x = _DISTANCE * signs * centers + rng.normal(size=(count, 2))
        self.x = x.astype(np.float32)

    def systems(self):
        """Returns the systems that are compared, the reference last."""
        refined = [
            name
            for name in laplace_flags.systems()
            if laplace_flags.split(name)[0] == "refined"
        ]
        return ["laplace", "vb", *refined, "nuts"]

    def run(self, folder):
        """Samples what is missing.

        Args:
            folder: `record.Folder`.

        Returns:
            results: Dict from a system to a dict of its `"samples"`, `[S][2]`,
                its `"mmd"` to half of the reference and what else is known.
        """
        results = {
            system: dict(
                folder.once(
                    laplace_flags.record_name("toy", system),
                    lambda system=system: self._sample(system),
                )
            )
            for system in self.systems()
        }
        samples = np.asarray(results["nuts"]["samples"])
        reference, other = samples[::2], samples[1::2]
        for system, result in results.items():
            drawn = other if system == "nuts" else result["samples"]
            result["mmd"] = metrics.mmd(
                reference, np.asarray(drawn)[: len(reference)]
            )
        return results

    def log_joint(self, theta):
        """Computes the logarithm of the posterior, but for a constant.

        Args:
            theta: Weights, `[..., 2]`.

        Returns:
            log_joint: Nats, `[...]`.
        """
        signed = (2.0 * self.y - 1.0) * (theta @ self.x.T.astype(np.float64))
        prior = np.sum(np.square(theta / FLAGS.toy_prior_scale), axis=-1)
        return -np.sum(np.logaddexp(0.0, -signed), axis=-1) - 0.5 * prior

    def _sample(self, system):
        count = _NUM_CHAINS * _NUM_SAMPLES
        seed = functional.seeds.key(FLAGS.seed, _SAMPLES)
        method, length = laplace_flags.split(system)
        if method == "vb":
            return {"samples": self._variational(count, seed).tolist()}
        posterior, about = self._laplace(), {}
        if method == "nuts":
            posterior = sampling.nuts_last_layer(
                posterior,
                num_chains=_NUM_CHAINS,
                num_warmup=_NUM_SAMPLES,
                num_samples=_NUM_SAMPLES,
                target_accept_prob=0.95,
                seed=functional.seeds.key(FLAGS.seed, _NUTS),
                verbose=int(FLAGS.progress),
            )
            about = posterior_diagnostics.diagnostics(posterior)
        elif length is not None:
            posterior = refinement.refine(
                posterior,
                seed=functional.seeds.key(FLAGS.seed, _REFINEMENT),
                **laplace_flags.refinement_options(length),
            )
        if method != "nuts":
            about = {"elbo": float(np.mean(posterior.elbo(1000)))}
        return {"samples": posterior.sample(count, seed=seed).tolist(), **about}

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
            prior_precision=FLAGS.toy_prior_scale**-2,
        ).fit(self.x, self.y, verbose=0)

    def _variational(self, count, seed):
        """Trains a fully factorized Gaussian, and draws from it."""
        layer = layers.DenseReparameterization(
            1,
            bias_posterior=None,
            use_bias=False,
            kernel_regularizer=regularizers.GaussianKL(FLAGS.toy_prior_scale),
            num_train_examples=len(self.y),
            seed=functional.seeds.key(FLAGS.seed, _VB),
        )
        model = keras.Sequential([keras.Input((2,)), layer])
        model.compile(
            keras.optimizers.Adam(
                keras.optimizers.schedules.CosineDecay(
                    _LEARNING_RATE, FLAGS.toy_steps
                )
            ),
            keras.losses.BinaryCrossentropy(from_logits=True),
            steps_per_execution=min(100, FLAGS.toy_steps),
        )
        batch = self.x, self.y[:, np.newaxis].astype(np.float32)
        model.fit(
            tf.data.Dataset.from_tensors(batch).repeat(),
            steps_per_epoch=FLAGS.toy_steps,
            shuffle=False,
            verbose=int(FLAGS.progress),
        )
        (weight,) = layer.variational_weights
        loc, scale = (
            np.ravel(value).astype(np.float64)
            for value in (weight.loc, weight.scale)
        )
        noise = np.random.default_rng(seed).standard_normal((count, 2))
        return loc + scale * noise
