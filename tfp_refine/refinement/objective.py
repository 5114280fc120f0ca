"""Objectives of refinement: a model, its data and its loss, with a bound."""

import warnings

from tfp_refine import functional
from tfp_refine.functional import objective as objective_lib


class RefinementObjective(functional.Objective):
    """Objective of a mean-field posterior, with its prior.

    Args:
        model: Built `keras.Model` with variational layers.
        x: Training inputs, as for `refine`.
        y: Training targets, as for `refine`.
        loss: Negative log likelihood, as for `refine`.
        refine_deterministic: Whether the vector includes the trainable weights
            without a posterior.

    Attributes:
        prior: The model's prior, `(loc [W], scale [W])`.

    Raises:
        ValueError: If model, data and loss do not fit each other, or the model
            cannot be refined.
    """

    def __init__(self, model, x, y, loss, refine_deterministic):
        view = functional.MeanFieldView(model, refine_deterministic)
        self.prior = view.prior()
        _check_free(view)
        objective_lib.check_finite(model, prior=self.prior)
        super().__init__(view, x, y, loss)
        check_layers(model, self.num_examples)


def check_layers(model, num_examples):
    """Refuses layers that have no bound.

    Args:
        model: `keras.Model`.
        num_examples: `N`.

    Raises:
        ValueError: If a variational layer does not sample.

    Warns:
        UserWarning: If a layer was trained with another `N`.
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
            warnings.warn(
                f"Layer '{layer.name}' was trained with num_train_examples="
                f"{trained_with}, but there are {num_examples} examples here.",
                UserWarning,
                stacklevel=6,
            )
            break


def _check_free(view):
    """Refuses weights that refinement may not move freely."""
    for weight in view.weights:
        if not weight.loc.trainable or weight.loc.constraint:
            raise ValueError(
                f"Variational weight '{weight.loc.path}' is frozen or "
                "constrained: refinement moves weights freely. Make "
                "its posterior None, or lift the constraint."
            )
    for variable in view.deterministic_weights:
        if variable.constraint:
            raise ValueError(
                f"Weight '{variable.path}' is constrained: refinement "
                "moves weights freely. Freeze it, lift the constraint, or "
                "pass refine_deterministic=False."
            )
