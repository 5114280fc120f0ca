"""Posterior families by name, config, class or object."""

import contextlib

import keras

from tfp_refine.layers import argument_types
from tfp_refine.layers import fixed_variance_posterior
from tfp_refine.layers import k_tied_posterior
from tfp_refine.layers import low_rank_posterior
from tfp_refine.layers import mean_field_posterior
from tfp_refine.layers import posterior_family

_BY_NAME: dict[str, type[posterior_family.PosteriorFamily]] = {
    "fixed_variance": fixed_variance_posterior.FixedVariancePosterior,
    "k_tied": k_tied_posterior.KTiedPosterior,
    "low_rank": low_rank_posterior.LowRankPosterior,
    "mean_field": mean_field_posterior.MeanFieldPosterior,
}


def get(
    identifier: argument_types.Posterior,
) -> posterior_family.PosteriorFamily | None:
    """Retrieves a posterior family from a name, config, class or object."""
    if identifier is None or isinstance(
        identifier, posterior_family.PosteriorFamily
    ):
        return identifier
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    if isinstance(identifier, type) and issubclass(
        identifier, posterior_family.PosteriorFamily
    ):
        return identifier()
    if isinstance(identifier, dict):
        with contextlib.suppress(TypeError, ValueError):  # unknown
            found = keras.saving.deserialize_keras_object(identifier)
            if isinstance(found, posterior_family.PosteriorFamily):
                return found
    raise ValueError(
        f"A posterior must be one of {sorted(_BY_NAME)}, a `PosteriorFamily` "
        f"or its class, or None for a point estimate. Received: {identifier!r}"
    )
