"""Posteriors that refinement starts from: one, or several independent fits."""

import dataclasses
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import functional
from tfp_refine import losses
from tfp_refine import posteriors
from tfp_refine.functional import likelihoods
from tfp_refine.functional import objective
from tfp_refine.math import softplus
from tfp_refine.posteriors import covariances

# Most correlated weights whose eigenvectors are computed.
_MAX_SIZE = 5000


class Start(NamedTuple):
    """Posterior and prior that a member starts from.

    Attributes:
        params: Means and untransformed scales, `[2, W]` or `[2, W + D]`.
        prior: Means and standard deviations, `(loc [W], scale [W])`.
        fixed: Fixed values of the view, such as values of the other weights
            of the model, a list.
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


def loss_of(sources):
    """Returns the loss that posteriors of a regression know, or `None`.

    Laplace's approximation has a noise, which perhaps was chosen by it.
    """
    known = {
        likelihood.noise_scale
        for likelihood in (getattr(one, "likelihood", None) for one in sources)
        if isinstance(likelihood, likelihoods.Gaussian)
    }
    if len(known) > 1:
        raise ValueError(
            "All starting posteriors must have the same `noise_scale`, or "
            f"`loss` be given. Received: {sorted(known)}"
        )
    return losses.GaussianNLL(known.pop()) if known else None


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
            _check_free([], _variables(view.weights))
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
    posterior._check_ready()
    view, covariance = posterior.view, posterior.covariance
    is_last_layer = isinstance(view, functional.LastLayerView)
    if not is_last_layer and (
        view.select != "trainable"
        or view.shapes != functional.WeightView(view.model).shapes
    ):
        raise ValueError(
            "Refinement starts from a Gaussian of all weights that the model "
            f"trains, or of its last layer. Received: {posterior!r} of "
            f"{view.size} weights"
        )
    if posterior.prior_scale is None:
        raise ValueError(
            "Refinement needs the prior of the weights, which this posterior "
            "does not have: set its `prior_scale`. "
            f"Received: {posterior!r} with prior_scale=None"
        )
    if not is_last_layer:
        view = functional.WeightView(view.model)
    dtype = view.dtype.as_numpy_dtype
    factors, *moments = _along_basis(
        np.asarray(posterior.loc, np.float64),
        covariance,
        np.broadcast_to(
            np.asarray(posterior.prior_scale, np.float64), [view.size]
        ),
    )
    loc, scale, prior_scale = (value.astype(dtype) for value in moments)
    fixed = [factor.astype(dtype) for factor in factors]
    return (
        functional.GaussianView(view, len(factors)),
        Start(
            np.stack([loc, softplus.inverse(tf.constant(scale)).numpy()]),
            (np.zeros_like(loc), prior_scale),
            [*fixed, *posterior.fixed],
        ),
    )


def _along_basis(loc, covariance, prior_scale):
    """Finds a basis in which posterior and prior are independent.

    Returns factors of the matrix from coordinates to weights, as `GaussianView`
    has them, and of the coordinates: mean and standard deviation, and that of
    the prior, which is centred, `[P]` each.
    """
    if type(covariance) is covariances.Diagonal:
        return [], loc, np.asarray(covariance.scale), prior_scale
    if np.all(prior_scale == prior_scale[0]) and isinstance(
        covariance, covariances.Diagonal
    ):
        # An isotropic prior is the same in any orthogonal basis.
        scale = np.asarray(covariance.scale, np.float64)
        along = covariance.standardize(loc).numpy() * scale
        return covariance.factors, along, scale, prior_scale
    if len(loc) > _MAX_SIZE:
        raise ValueError(
            f"Refinement needs the eigenvectors of a matrix of {len(loc)} x "
            f"{len(loc)} here, and at most {_MAX_SIZE} x {_MAX_SIZE}. Take a "
            "posterior of independent weights, or one with the same prior for "
            "all weights and a covariance that is full or of Kronecker "
            f"factors. Received: a covariance of the class "
            f"{type(covariance).__name__}"
        )
    # In units of the prior, and of one typical scale, so that learning rates
    # keep their meaning.
    typical = np.exp(np.mean(np.log(prior_scale)))
    unit = prior_scale / typical
    matrix = np.asarray(covariance.matrix(), np.float64)
    values, vectors = np.linalg.eigh(matrix / np.outer(unit, unit))
    rounding = len(loc) * np.finfo(np.float64).eps * values[-1]
    return (
        [unit[:, np.newaxis] * vectors],
        vectors.T @ (loc / unit),
        np.sqrt(np.maximum(values, rounding)),
        np.full_like(loc, typical),
    )


def _variables(view):
    """Lists the variables whose values are the vector of a view."""
    if isinstance(view, functional.LastLayerView):
        return [view.layer.kernel, *[view.layer.bias] * view.layer.use_bias]
    return view.variables


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
        (
            type(view).__name__,
            view.dtype.name,
            start.params.shape,
            [*view.shapes, *map(np.shape, start.fixed)],
        )
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
