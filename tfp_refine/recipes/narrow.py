"""Narrow posteriors around the networks of a deep ensemble."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import models
from tfp_refine import posteriors
from tfp_refine.math import softplus


def narrow_posteriors(
    ensemble: posteriors.EnsemblePosterior,
    kl_scales: Sequence[float],
    *,
    num_train_examples: int,
    scale: float = 0.01,
    raw_noise: npt.ArrayLike | None = None,
    estimator: str = "local_reparameterization",
    regularizer: Any = "gaussian_kl",
    seed: int | None = None,
) -> posteriors.EnsemblePosterior:
    """Gives each network of a deep ensemble a narrow posterior.

    Means are the trained weights. The standard deviation of a cold posterior is
    smaller, in proportion to the square root of its factor.

    Args:
        ensemble: `M` trained networks, such as those of
            `ensembles.deep_ensemble`.
        kl_scales: Factor on the KL divergence of each member, `M` numbers, as
            `refine` takes them.
        num_train_examples: Number of training examples.
        scale: Standard deviation of all weights where the factor is at least 1.
            Defaults to `0.01`.
        raw_noise: Value that the weight of a `HomoscedasticNoise` starts from,
            a number or `[D]`, as `raw_noise` of the loss returns it. Defaults
            to `None`, the trained one.
        estimator: As for `models.to_bayesian`.
        regularizer: As for `models.to_bayesian`, the prior.
        seed: Integer that fixes the noise; fresh if `None`.

    Returns:
        ensemble: `EnsemblePosterior` of `M` variational models, which `refine`
            can start from.

    Raises:
        ValueError: If an argument is invalid, or the networks cannot get
            posteriors.
    """
    if len(kl_scales) != ensemble.num_members:
        raise ValueError(
            f"`kl_scales` must be {ensemble.num_members} numbers, one for each "
            f"network. Received: kl_scales={list(kl_scales)}"
        )
    factors = [
        math.sqrt(min(1.0, _validation.positive("kl_scales", kl_scale)))
        for kl_scale in kl_scales
    ]
    converted = models.to_bayesian(
        ensemble,
        num_train_examples=num_train_examples,
        estimator=estimator,
        regularizer=regularizer,
        posterior=layers.MeanFieldPosterior(scale),
        initializer=None,
        seed=seed,
    )
    view, params = converted.view, np.array(converted.params)
    weights = functional.variational_weights(view.model)
    is_scale = _places(view, [w.untransformed_scale for w in weights])
    for vector, factor in zip(params, factors, strict=True):
        vector[is_scale] = softplus.inverse_of_float(factor * scale)
    if raw_noise is not None:
        noise = [layer.untransformed_scale for layer in noises(view.model)]
        params[:, _places(view, noise)] = raw_noise
    return posteriors.EnsemblePosterior(
        view, params, converted.fixed, converted.link
    )


def noises(model):
    """Lists the layers of a model that are a learned homoscedastic noise."""
    return [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, layers.HomoscedasticNoise)
        and layer.untransformed_scale.trainable
    ]


def _places(view, variables):
    """Returns which numbers of a vector belong to some variables, `[P]`."""
    chosen = {id(variable) for variable in variables}
    return np.concatenate(
        [np.full(np.prod(v.shape), id(v) in chosen) for v in view.variables]
    )
