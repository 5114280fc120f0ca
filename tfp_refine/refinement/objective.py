"""Objectives of refinement: a model, its data and its loss, with a bound."""

from tfp_refine import functional
from tfp_refine.functional import executor
from tfp_refine.functional import objective as objective_lib
from tfp_refine.functional import streams


class RefinementObjective(functional.Objective):
    """Objective of a mean-field posterior, with its prior.

    With `refine_deterministic` the vector includes the trainable weights
    without a posterior. `prior` is `(loc [W], scale [W])`.
    """

    def __init__(self, model, x, y, loss, refine_deterministic, **weights):
        view = functional.MeanFieldView(model, refine_deterministic)
        self.prior = view.prior()
        _check_free(view)
        objective_lib.check_finite(model, prior=self.prior)
        super().__init__(view, x, y, loss, **weights)
        check_layers(model, self.num_examples)


def of_settings(model, given, settings):
    """Makes the objective of a refinement, of the data that were given.

    These are a dict, the settings `Settings`, which are checked against both.
    """
    if settings.coordinator is not None:
        executor.check_reachable(model)
    objective = RefinementObjective(
        model,
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
