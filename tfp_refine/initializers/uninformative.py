"""Posteriors that start as their priors."""

from tfp_refine.initializers import initializer


class Uninformative(initializer.PosteriorInitializer):
    """Starts posteriors as their priors, where the KL divergence is zero.

    Args:
        seed: Not used.
        verbose: As for `PosteriorInitializer`.

    Raises:
        ValueError: When called, if a prior is missing or not Gaussian.
    """

    def _initialize_layer(self, layer, rng):
        priors = []
        for weight in layer.variational_weights:
            weight.check_prior()
            priors.append(weight.prior)
        for weight, prior in zip(
            layer.variational_weights, priors, strict=True
        ):
            weight.initialize(prior.loc, prior.scale)
