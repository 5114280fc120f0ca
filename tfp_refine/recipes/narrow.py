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
        ensemble: Trained networks, such as those of `ensembles.deep_ensemble`.
        kl_scales: Factor on the KL divergence of each member, `[M]`, as
            `refine` takes them. Member `m` is around network `m` modulo their
            number, all of which have a member.
        num_train_examples: Number of training examples.
        scale: Standard deviation of all weights where the factor is at least 1.
            Defaults to `0.01`.
        raw_noise: Values that the weights of `HomoscedasticNoise` layers start
            from, one for all or one for each of `D` weights, `[D]`, as
            `raw_noise` of the loss returns them. Defaults to `None`, the
            trained ones.
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
    if not isinstance(ensemble, posteriors.EnsemblePosterior):
        raise ValueError(
            "`ensemble` must be an EnsemblePosterior, such as `deep_ensemble` "
            f"returns. Received: {type(ensemble).__name__}"
        )
    kl_scales = _validation.array("kl_scales", kl_scales, None)
    if len(kl_scales) < ensemble.num_members:
        raise ValueError(
            f"`kl_scales` must be at least {ensemble.num_members} numbers, one "
            f"for each network. Received: kl_scales={kl_scales.tolist()}"
        )
    for kl_scale in kl_scales:
        _validation.positive("kl_scales", kl_scale)
    variables = noises(ensemble.model)
    if raw_noise is not None:
        size = sum(math.prod(variable.shape) for variable in variables)
        if not size:
            raise ValueError(
                "`raw_noise` needs a model with a trainable HomoscedasticNoise."
                f" Received: raw_noise={raw_noise!r} for the model "
                f"'{ensemble.model.name}' without one"
            )
        raw_noise = _validation.array("raw_noise", raw_noise)
        if raw_noise.ndim:
            raw_noise = _validation.array("raw_noise", raw_noise, size)
    converted = models.to_bayesian(
        ensemble,
        num_train_examples=num_train_examples,
        estimator=estimator,
        regularizer=regularizer,
        posterior=layers.MeanFieldPosterior(scale),
        initializer=None,
        seed=seed,
    )
    view = converted.view
    networks = np.arange(len(kl_scales)) % ensemble.num_members
    params = converted.params[networks]
    weights = functional.variational_weights(view.model)
    is_scale = places(view, [w.untransformed_scale for w in weights])
    for vector, kl_scale in zip(params, kl_scales, strict=True):
        vector[is_scale] = softplus.inverse_of_float(
            scale * math.sqrt(min(1.0, kl_scale))
        )
    if raw_noise is not None:
        params[:, places(view, noises(view.model))] = raw_noise
    return posteriors.EnsemblePosterior(
        view,
        params,
        [value[networks] for value in converted.fixed],
        converted.link,
    )


def noises(model):
    """Lists the variables of the learned homoscedastic noises of a model."""
    return [
        layer.untransformed_scale
        for layer in model._flatten_layers()
        if isinstance(layer, layers.HomoscedasticNoise)
        and layer.untransformed_scale.trainable
    ]


def places(view, variables):
    """Says which numbers of a vector belong to some variables, `[P]`."""
    chosen = {id(variable) for variable in variables}
    return np.concatenate(
        [np.full(math.prod(v.shape), id(v) in chosen) for v in view.variables]
    )
