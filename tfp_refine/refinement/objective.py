"""Objectives of refinement: posterior, data and loss, with a bound."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.functional import executor
from tfp_refine.functional import objective as objective_lib
from tfp_refine.functional import several_outputs
from tfp_refine.functional import streams
from tfp_refine.refinement import starts as starts_lib

# Examples whose features are computed at a time.
_FEATURES_AT_ONCE = 1024


class RefinementObjective(functional.Objective):
    """Objective of one or several Gaussian posteriors, with their priors.

    `model` is that of `refine`. With `refine_deterministic` vectors include the
    trainable weights without a posterior. The `data` of one posterior of a last
    layer have its features in place of the inputs.

    Attributes:
        starts: List of the `Start` of each posterior.
        given_data: The data before features take the place of the inputs.
    """

    def __init__(self, model, x, y, loss, refine_deterministic, **weights):
        sources = starts_lib.sources_of(model)
        views, self.starts = starts_lib.read(sources, refine_deterministic)
        if loss is None:
            loss = starts_lib.loss_of(sources)
        at = self.starts[0].params, self.starts[0].fixed
        super().__init__(views[0], x, y, loss, at=at, **weights)
        for source in sources:
            check_count(source, self.num_examples)
        for view in {id(one.model): one for one in reversed(views)}.values():
            check_layers(view.model, self.num_examples)
            if view is not self.view:
                self._check_alike(view, loss)
        self.given_data = self.data
        self._has_features = len(views) == 1 and self.view.has_shared
        if self.view.has_shared:
            self._use_last_layer()

    def nll(self, batch, params, fixed, key, index):
        """Computes the negative log likelihood, as `Objective`."""
        if not self._has_features:
            return super().nll(batch, params, fixed, key, index)
        outputs = self.view.draws(batch[0], params, fixed, key, index)
        return self.nll_of(batch, outputs)

    def identity(self):
        """Returns the arrays that decide a refinement, for checkpoints."""
        data = self.given_data
        if isinstance(self.data, streams.Stream):
            data = self.data  # which is read, and checked as it is
        return {
            **streams.parts(data),
            "posterior": [start.params for start in self.starts],
            "prior": [start.prior for start in self.starts],
            "other_weights": [start.fixed for start in self.starts],
        }

    def _use_last_layer(self):
        """Checks positions, and computes features where all draws share them.

        A stream of small features becomes held data.
        """
        view = self.view.weights
        view.find_positions(self.head[0])
        if view.has_mask:
            raise ValueError(
                "Refinement through auxiliary variables has no masks of a last "
                "layer's outputs; refinement by flows has, `refine` of the "
                f"posterior. Received: the model '{view.model.name}', whose "
                "outputs are masked"
            )
        if not self._has_features:
            return
        fixed = self.fixed[self.view.num_factors :]

        def convert(x, *others):
            features = view.inputs(x, _FEATURES_AT_ONCE, fixed=fixed)
            return tf.constant(features), *others

        if isinstance(self.data, streams.Stream):
            self.data = self.data.map(convert).hold()
        else:
            self.data = convert(*self.data)

    def _check_alike(self, other, loss):
        """Refuses a model that is another function, or was trained for one."""
        x, y, *weights = self.head
        expected, found = (
            view.call(x, self.params, self.fixed, 0)
            for view in (self.view, other)
        )
        names = f"'{self.view.model.name}' and '{other.model.name}'"
        if not _are_close(expected, found):
            raise ValueError(
                "All starting posteriors must be of models of the same "
                f"architecture. Received: {names}, which compute different "
                "outputs with the same weights"
            )
        if loss is not None or getattr(other.model, "loss", None) is None:
            return
        trained_for = objective_lib.resolve_sum(other.model, found)
        is_sum = [
            isinstance(one, several_outputs.SummedLoss)
            for one in (self.loss, trained_for)
        ]
        if is_sum[0] != is_sum[1] or not _are_close(
            self.nll_of(self.head, expected),
            objective_lib.summed_nll(
                objective_lib.parts(trained_for, y, found, *weights)
            ),
        ):
            raise ValueError(
                "All starting posteriors must be trained for the same loss, or "
                f"`loss` be given. Received: {names}, whose losses differ: "
                f"{self.loss!r} and {trained_for!r}"
            )


def _are_close(expected, found):
    return all(
        np.shape(one) == np.shape(other)
        and np.allclose(one, other, rtol=1e-3, atol=1e-5)
        for one, other in zip(
            keras.tree.flatten(expected), keras.tree.flatten(found), strict=True
        )
    )


def of_settings(model, given, settings):
    """Makes the objective of a refinement, of the data that were given.

    These are a dict, the settings `Settings`, which are checked against both.
    """
    sources = starts_lib.sources_of(model)
    if settings.num_members % len(sources):
        raise ValueError(
            f"`num_members` must be a multiple of {len(sources)}, the number "
            "of starting posteriors, so that all count alike. Received: "
            f"num_members={settings.num_members}"
        )
    if settings.coordinator is not None:
        for source in sources:
            executor.check_reachable(getattr(source, "model", source))
    objective = RefinementObjective(
        sources,
        **given,
        loss=settings.loss,
        refine_deterministic=settings.refine_deterministic,
    )
    if settings.coordinator is not None:
        objective.jit_compile = False  # workers may have other devices
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


def check_count(posterior, num_examples):
    """Refuses a Gaussian that was trained with another number of examples.

    Other posteriors are taken, and models, as `check_layers` checks them.
    """
    trained_with = getattr(posterior, "num_train_examples", None)
    if trained_with not in (None, num_examples):
        raise ValueError(
            f"The posterior has num_train_examples={trained_with}, but there "
            f"are {num_examples} examples here: it was trained for another "
            "bound. Give the data that it was trained with, or correct the "
            f"number before training. Received: {posterior!r}"
        )
