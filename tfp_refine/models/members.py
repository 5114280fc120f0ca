"""Ensembles of trained networks, as ensembles of Bayesian ones."""

import warnings

import numpy as np

from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.functional import objective


def to_bayesian(ensemble, convert):
    """Converts each member of an ensemble of points.

    Args:
        ensemble: `EnsemblePosterior` of all trainable weights of a model.
        convert: Function of a model that returns a Bayesian copy of it.

    Returns:
        ensemble: `EnsemblePosterior` of the variables of such copies, as
            `ensembles.deep_ensemble` makes of a variational model.
    """
    if ensemble.view.select != "trainable":
        raise ValueError(
            "Members of an ensemble must be points, such as those of "
            f"`deep_ensemble`, to get posteriors. Received: {ensemble!r}, with "
            f"members of the class {type(ensemble.view).__name__}"
        )
    view, params, fixed = None, [], []
    for index in range(ensemble.num_members):
        with warnings.catch_warnings():
            if view is not None:
                warnings.simplefilter("ignore")  # once for all members
            converted = convert(ensemble.member(index))
        one = functional.WeightView(converted)
        params.append(one.params())
        fixed.append([np.asarray(value) for value in one.fixed()])
        view = view or one
    loss = getattr(ensemble.model, "loss", None)
    if loss is not None:
        view.model.compile(
            loss=loss,
            loss_weights=objective.compiled_loss_weights(ensemble.model),
            jit_compile=ensemble.model.jit_compile,
        )
    return posteriors.EnsemblePosterior(
        view,
        np.stack(params),
        [np.stack(values) for values in zip(*fixed, strict=True)],
        ensemble.link,
    )
