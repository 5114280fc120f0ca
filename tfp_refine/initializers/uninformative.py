"""Posteriors that start as their priors."""

from tfp_refine.initializers import initializer


class Uninformative(initializer.PosteriorInitializer):
    """Starts posteriors as their priors.

    The KL divergence is then zero, if the prior is fixed or learned and the
    family of the posterior can have its means and scales. Of collapsed bounds
    the prior is the one given the posterior as it was.

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
