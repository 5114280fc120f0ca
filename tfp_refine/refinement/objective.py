"""Objectives of refinement: posterior, data and loss, with a bound."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.functional import executor
from tfp_refine.functional import objective as objective_lib
from tfp_refine.functional import streams
from tfp_refine.math import softplus
from tfp_refine.posteriors import covariances


class RefinementObjective(functional.Objective):
    """Objective of a mean-field posterior, with its prior.

    It is that of a model's variational layers, or a `GaussianPosterior`. With
    `refine_deterministic` the vector includes the trainable weights without a
    posterior. `prior` is `(loc [W], scale [W])`.
    """

    def __init__(self, start, x, y, loss, refine_deterministic, **weights):
        if isinstance(start, keras.Model):
            view = functional.MeanFieldView(start, refine_deterministic)
            self.prior = view.prior()
            _check_free(view.weights, view.deterministic_weights)
        else:
            view, self.prior = _of_gaussian(start)
            _check_free([], view.variables)
        objective_lib.check_finite(view.model, prior=self.prior)
        super().__init__(view, x, y, loss, **weights)
        check_layers(view.model, self.num_examples)


def start_of(model):
    """Returns what refinement and bounds start from, for a model or posterior.

    It is a `GaussianPosterior`, that of a model trained with `optimizers.IVON`
    too; or a model, for its variational layers.
    """
    if isinstance(model, keras.Model) and hasattr(model, "optimizer"):
        posterior = posteriors.posterior(model)
        if isinstance(posterior, posteriors.GaussianPosterior):
            return posterior
    return model


def of_settings(model, given, settings):
    """Makes the objective of a refinement, of the data that were given.

    These are a dict, the settings `Settings`, which are checked against both.
    """
    start = start_of(model)
    if settings.coordinator is not None:
        executor.check_reachable(getattr(start, "model", start))
    objective = RefinementObjective(
        start,
        **given,
        loss=settings.loss,
        refine_deterministic=settings.refine_deterministic,
    )
    is_stream = isinstance(objective.data, streams.Stream)
    if is_stream and settings.coordinator is not None:
        raise ValueError(
            "With a `coordinator` each worker holds the data: they must fit in "
            f"its memory. Received: a dataset of {objective.num_examples} "
            f"examples, more than {streams.HELD_BYTES / 2**30:g} GiB"
        )
    return objective


def _of_gaussian(posterior):
    """Returns the view and the prior `(loc [P], scale [P])` of a posterior."""
    if not isinstance(posterior, posteriors.GaussianPosterior):
        raise ValueError(
            "`model` must be a keras.Model with variational layers or trained "
            "with `tfp_refine.optimizers.IVON`, or a GaussianPosterior. "
            f"Received: {type(posterior).__name__}"
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
    return (
        functional.GaussianView(view.model, params, posterior.fixed),
        (np.zeros_like(loc), prior_scale.astype(dtype)),
    )


def check_layers(model, num_examples):
    """Refuses variational layers that do not sample: they have no bound.

    Also layers that were trained with another number of examples, as theirs is
    another bound.
    """
    for layer in model._flatten_layers():
        if not getattr(layer, "variational_weights", ()):
            continue
        if not layer.sample:
            raise ValueError(
                f"Layer '{layer.name}' has sample=False: without draws of "
                "its weights there is no bound to compute."
            )
        trained_with = layer.num_train_examples
        if trained_with not in (None, num_examples):
            raise ValueError(
                f"Layer '{layer.name}' has num_train_examples={trained_with}, "
                f"but there are {num_examples} examples here: the posterior "
                "was trained for another bound. Give the data that it was "
                "trained with, or correct the number before training: "
                f"`tfp_refine.layers.set_num_train_examples(model, "
                f"{num_examples})`."
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
