"""Gaussian posteriors of models, as means and scales of variational layers."""

import numpy as np

from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine import regularizers
from tfp_refine.functional import layer_calls
from tfp_refine.functional import weight_view
from tfp_refine.models import cloning
from tfp_refine.posteriors import covariances
from tfp_refine.posteriors import posterior_file


def at_means(posterior, model):
    """Copies a model, with the weights at the means of a posterior.

    Also returns the scale of each weight of the copy, by its variable's `id`.
    """
    view = posterior.view
    if view.select != "trainable" or not _is_diagonal(posterior):
        raise ValueError(
            "Variational layers take a posterior of all weights of the model, "
            "independent, such as that of a model trained with IVON. "
            f"Received: posterior={posterior!r} with a covariance of the class "
            f"{type(posterior.covariance).__name__}"
        )
    copy, _ = cloning.clone(model, lambda layer: None)
    found = posterior_file.same_view(view, copy)
    if found.digest() != view.digest():
        raise ValueError(
            "`posterior` must be one of the model. Received: a posterior of "
            f"'{posterior.model.name}' for the model '{model.name}', which "
            "differs in layers, in shapes of weights, or in the weights that "
            "are frozen (not trainable)."
        )
    found.assign(posterior.loc, posterior.fixed)
    scales = found.split(posterior.scale)
    return copy, {
        id(variable): scale
        for variable, scale in zip(found.variables, scales, strict=True)
    }


def regularizer(posterior):
    """Returns the KL regularizer of the prior of a posterior, one scale."""
    if posterior.prior_scale is None:
        return "gaussian_kl"
    scales = np.unique(posterior.prior_scale)
    if len(scales) > 1:
        raise ValueError(
            "The prior of the posterior has several scales: give `regularizer`."
            f" Received: scales from {scales[0]:g} to {scales[-1]:g}"
        )
    return regularizers.GaussianKL(float(scales[0]))


def of_pairs(model, pairs):
    """Makes a posterior of a model, of weights with mean-field posteriors.

    Pairs are of such a weight and a variable of the model.
    """
    found = {}
    for weight, variable in pairs:
        variable.assign(weight.loc)
        if getattr(weight, "family", None) is None:
            continue  # a point estimate
        weight.check_prior()
        prior = weight.prior
        if weight.family != "mean_field" or np.any(prior.loc):
            raise ValueError(
                "A Gaussian posterior of independent weights needs mean-field "
                "families and priors around zero. Received: "
                f"'{weight.loc.path}' of the family '{weight.family}' with "
                f"the prior {prior!r}"
            )
        found[id(variable)] = (weight.scale, prior.scale)
    for layer in layer_calls.layers_with_weights(model):
        known = [id(v) in found for v in layer.trainable_weights]
        if not any(known):
            layer.trainable = False
        elif not all(known):
            raise ValueError(
                "Each layer must have a posterior of all its trainable weights,"
                f" or of none. Received: '{layer.name}' with some of each"
            )
    view = functional.WeightView(model)
    scale, prior_scale = (
        weight_view.flatten(
            [
                np.broadcast_to(found[id(v)][part], v.shape)
                for v in view.variables
            ],
            view.dtype,
        ).numpy()
        for part in (0, 1)
    )
    return posteriors.GaussianPosterior(
        view,
        view.params().numpy(),
        covariances.Diagonal(scale),
        [*map(np.array, view.fixed())],
        functional.links.find(model),
        prior_scale=prior_scale,
    )


def _is_diagonal(posterior):
    return type(posterior.covariance) is covariances.Diagonal
