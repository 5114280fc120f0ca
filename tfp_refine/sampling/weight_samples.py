"""Samples of the weights of a trained network."""

import functools

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_refine import posteriors


class WeightSamples(posteriors.WeightPosterior):
    """Samples of a posterior of weights, by Markov chains.

    Made by `nuts`; not usually constructed.

    Args:
        network: `LastLayer` or `AllLayers`.
        likelihood: Likelihood of targets given its outputs.
        activation: Name of what the model applies to these.
        theta: Samples, `[T, chains, D]`.
        num_divergences: See the attribute.
        mean_leapfrogs: See the attribute.

    Attributes:
        theta: Samples in the order of each chain, float array `[T, chains, D]`.
        r_hat: Potential scale reduction of each weight, with chains split in
            two, `[D]`: 1 if all have come to the same distribution. With a
            single chain, its two halves are compared.
        effective_sample_size: Number of independent samples that are worth as
            much for the mean of each weight, of all chains together, `[D]`.
        num_divergences: Transitions whose energy was lost: near these, parts of
            the posterior may be missing.
        mean_leapfrogs: Gradients that a transition took on average.

    Reference:
        - [Vehtari et al., 2021](https://arxiv.org/abs/1903.08008)
    """

    def __init__(
        self,
        network,
        likelihood,
        activation,
        theta,
        num_divergences,
        mean_leapfrogs,
    ):
        super().__init__(network, likelihood, activation)
        self.theta = theta
        self.num_divergences = num_divergences
        self.mean_leapfrogs = mean_leapfrogs

    @functools.cached_property
    def r_hat(self):
        """Potential scale reduction of each weight, `[D]`."""
        return tfp.mcmc.potential_scale_reduction(
            self._exact(), independent_chain_ndims=1, split_chains=True
        ).numpy()

    @functools.cached_property
    def effective_sample_size(self):
        """Number of independent samples worth as much, `[D]`."""
        exact = self._exact()
        is_single = exact.shape[1] == 1
        logger = tf.get_logger()
        level = logger.level
        logger.setLevel("ERROR")  # not that imaginary parts, of 0, are lost
        try:
            return tfp.mcmc.effective_sample_size(
                exact[:, 0] if is_single else exact,
                filter_beyond_positive_pairs=True,
                cross_chain_dims=None if is_single else 1,
            ).numpy()
        finally:
            logger.setLevel(level)

    def _exact(self):
        # In float64: variances within chains and of their means are compared.
        return np.asarray(self.theta, np.float64)

    def _sampler(self, seed):
        """Draws without replacement, until all have been; then again."""
        rng = np.random.default_rng(seed)
        theta = self.theta.reshape(-1, self.theta.shape[-1])
        left = []

        def draw(number):
            while len(left) < number:
                left.extend(rng.permutation(len(theta)))
            taken = left[:number]
            del left[:number]
            return theta[taken]

        return draw

    def contents(self):
        """Returns what a file of it holds, as `WeightPosterior` says."""
        description = {
            "num_divergences": self.num_divergences,
            "mean_leapfrogs": self.mean_leapfrogs,
        }
        return description, {"theta": self.theta}

    @classmethod
    def from_contents(cls, network, likelihood, description, arrays):
        """Restores what `contents` returned, as `WeightPosterior` says."""
        return cls(
            network,
            likelihood,
            description["activation"],
            arrays["theta"],
            description["num_divergences"],
            description["mean_leapfrogs"],
        )
