"""Posteriors that refinement starts from: one, or several independent fits."""

import dataclasses
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.functional import objective
from tfp_refine.math import softplus
from tfp_refine.posteriors import covariances


class Start(NamedTuple):
    """Posterior and prior that a member starts from.

    Attributes:
        params: Means and untransformed scales, `[2, W]` or `[2, W + D]`.
        prior: Means and standard deviations, `(loc [W], scale [W])`.
        fixed: Values of the other weights of the model, a list.
    """

    params: Any
    prior: tuple
    fixed: list


@dataclasses.dataclass(frozen=True)
class EnsembleMember:
    """A member of an ensemble of points of a model's trainable weights."""

    ensemble: posteriors.EnsemblePosterior
    index: int

    @property
    def model(self):
        """Model of the ensemble, whose own weights do not matter."""
        return self.ensemble.model


def source_of(model):
    """Returns the source of one posterior, for a model or posterior.

    It is a `GaussianPosterior`, that of a model trained with `optimizers.IVON`
    too; or a model, for its variational layers.
    """
    if isinstance(model, posteriors.VariationalPosterior):
        if not model.view.sample:
            raise ValueError(
                "A posterior with sample=False does not draw the weights: "
                f"there is no bound to compute. Received: {model!r}"
            )
        return model.model
    if isinstance(model, keras.Model) and hasattr(model, "optimizer"):
        posterior = posteriors.posterior(model)
        if isinstance(posterior, posteriors.GaussianPosterior):
            return posterior
    return model


def sources_of(model):
    """Lists the sources of all starting posteriors.

    `model` is that of `refine`, or a result of this function. Elements are
    results of `source_of`, or `EnsembleMember`s.
    """
    if isinstance(model, posteriors.MixturePosterior):
        return list(model.members)
    if isinstance(model, posteriors.EnsemblePosterior):
        if model.view.select != "trainable":
            raise ValueError(
                "The members of an ensemble to start from must be fits of a "
                "variational model, such as those of `deep_ensemble`. "
                f"Received: {model!r} with members of the class "
                f"{type(model.view).__name__}"
            )
        return [EnsembleMember(model, i) for i in range(model.num_members)]
    if not isinstance(model, list | tuple):
        return [source_of(model)]
    if not model:
        raise ValueError(
            "`model` must hold at least one posterior to start from. "
            f"Received: model={model!r}"
        )
    _check_own_weights(model)
    return [source_of(one) for one in model]


def _check_own_weights(models):
    """Refuses models that share weights: the last fit is that of all."""
    owners = {}
    for one in models:
        if isinstance(one, posteriors.VariationalPosterior):
            one = one.model
        if not isinstance(one, keras.Model):  # posteriors own their values
            continue
        for variable in one.trainable_weights:
            if id(variable) in owners:
                raise ValueError(
                    "Starting posteriors must be models with weights of their "
                    "own: the last fit would count for all. Build a "
                    "model for each fit, for instance by "
                    "`keras.models.clone_model`, or use "
                    "`tfp_refine.ensembles.deep_ensemble`. Received: models "
                    f"'{owners[id(variable)]}' and '{one.name}', which share "
                    f"'{variable.path}'"
                )
        owners |= {id(v): one.name for v in one.trainable_weights}


def read(sources, refine_deterministic):
    """Reads starting posteriors: a view for each, and its `Start`, two lists.

    The views see weights in the same order.
    """
    views, starts = [], []
    for source in sources:
        if isinstance(source, keras.Model | EnsembleMember):
            model = getattr(source, "model", source)
            view = functional.MeanFieldView(model, refine_deterministic)
            _check_free(view.weights, view.deterministic_weights)
            with keras.StatelessScope(state_mapping=_values(source)):
                start = Start(view.params(), view.prior(), view.fixed())
        else:
            view, start = _of_gaussian(source)
            _check_free([], view.variables)
        objective.check_finite(view.model, prior=start.prior)
        if views:
            _check_shapes((views[0], view), (starts[0], start), len(starts))
        views.append(view)
        starts.append(tf.nest.map_structure(np.asarray, start))
    return views, starts


def _values(source):
    """Returns pairs of variables and values that they do not have, if any."""
    if isinstance(source, keras.Model):
        return []
    view = source.ensemble.view
    params, fixed = source.ensemble.weights_of(source.index)
    return [
        *zip(view.variables, view.split(params), strict=True),
        *zip(view.fixed_variables, fixed, strict=True),
    ]


def _of_gaussian(posterior):
    """Returns the view and the `Start` of a `GaussianPosterior`."""
    if not isinstance(posterior, posteriors.GaussianPosterior):
        raise ValueError(
            "`model` must be a keras.Model with variational layers or trained "
            "with `tfp_refine.optimizers.IVON`, or a GaussianPosterior, or "
            f"several of them. Received: {type(posterior).__name__}"
        )
    view = posterior.view
    if (
        type(posterior.covariance) is not covariances.Diagonal
        or view.select != "trainable"
        or view.shapes != functional.WeightView(view.model).shapes
    ):
        raise ValueError(
            "Refinement starts from a Gaussian of independent weights, of all "
            f"that the model trains. Received: {posterior!r} with a covariance "
            f"of the class {type(posterior.covariance).__name__}, of "
            f"{view.size} weights"
        )
    if posterior.prior_scale is None:
        raise ValueError(
            "Refinement needs the prior of the weights, which this posterior "
            f"does not have. Received: {posterior!r} with prior_scale=None"
        )
    dtype = functional.WeightView(view.model).dtype.as_numpy_dtype
    loc = np.asarray(posterior.loc, dtype)
    scale = tf.constant(np.asarray(posterior.scale, dtype))
    params = np.stack([loc, softplus.inverse(scale).numpy()])
    prior_scale = np.broadcast_to(posterior.prior_scale, loc.shape)
    prior = (np.zeros_like(loc), prior_scale.astype(dtype))
    return (
        functional.GaussianView(view.model),
        Start(params, prior, list(posterior.fixed)),
    )


def _check_free(weights, variables):
    """Refuses weights that refinement may not move freely."""
    for weight in weights:
        if not weight.loc.trainable or weight.loc.constraint:
            raise ValueError(
                f"Variational weight '{weight.loc.path}' is frozen or "
                "constrained: refinement moves weights freely. Make "
                "its posterior None, or lift the constraint."
            )
    for variable in variables:
        if variable.constraint:
            raise ValueError(
                f"Weight '{variable.path}' is constrained: refinement "
                "moves weights freely. Freeze it, lift the constraint, or "
                "pass refine_deterministic=False."
            )


def _check_shapes(views, starts, number):
    """Refuses two starts that do not fit the same model."""
    kinds = [
        (type(view).__name__, view.dtype.name, start.params.shape, view.shapes)
        for view, start in zip(views, starts, strict=True)
    ]
    if kinds[0] != kinds[1]:
        shown = [
            f"a {kind} of {shape[1]} weights, {dtype}, in {len(shapes)} arrays"
            for kind, dtype, shape, shapes in kinds
        ]
        raise ValueError(
            "All starting posteriors must be of models of the same "
            "architecture, with weights of the same shapes and priors of the "
            f"same kind. Received: number 0 is {shown[0]}; number {number} is "
            f"{shown[1]}"
        )
