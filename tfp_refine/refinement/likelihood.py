"""A model, its data and its loss, checked to fit each other."""

import warnings

import keras
import numpy as np

from tfp_refine import functional
from tfp_refine.refinement import sampling_forward


class Likelihood:
    """What the expected likelihood of a model is computed from.

    Args:
        model: Built `keras.Model` with variational layers.
        x: Training inputs, as for `refine`.
        y: Training targets, as for `refine`.
        loss: Negative log likelihood, as for `refine`.
        layout: `WeightLayout` of weights that come as `params`, or `None`.

    Attributes:
        model: The model.
        forward: Its `Forward`; layers draw their weights.
        params: Values of the layout's weights, or `None`.
        others: Values of its weights that are not in `params`.
        loss: What `example_loss.resolve` returned.
        data: `(x, y)`, tensors `[N, ...]` (or nested).
        num_examples: `N`.
        head_nll: Negative log likelihood of the first examples at a fixed
            draw, to tell problems apart.

    Raises:
        ValueError: If model, data and likelihood do not fit each other.
    """

    def __init__(self, model, x, y, loss, layout=None):
        self.model = model
        self.params = None if layout is None else layout.params()
        self.loss = functional.example_loss.resolve(model, loss)
        x, y, self.num_examples = functional.arrays.examples(x, y)
        functional.arrays.check_fits(model, x)
        self.data = (x, y)
        self.forward = sampling_forward.sampling_forward(model, layout)
        self.others = self.forward.other_values()
        self._check_layers()
        check_finite(model, weights=(self.params, self.others))
        self.head_nll = self._check_likelihood()

    def _check_layers(self):
        """Refuses what has no bound."""
        for layer in self.model._flatten_layers():
            if not getattr(layer, "variational_weights", ()):
                continue
            if not layer.sample:
                raise ValueError(
                    f"Layer '{layer.name}' has sample=False: without draws of "
                    "its weights there is no bound to compute."
                )
            told = layer.num_train_examples
            if told not in (None, self.num_examples):
                warnings.warn(
                    f"Layer '{layer.name}' was trained with num_train_examples="
                    f"{told}, but there are {self.num_examples} examples here.",
                    UserWarning,
                    stacklevel=7,
                )
                break

    def _check_likelihood(self):
        """Runs two examples, so that a mismatch shows before long work."""
        x, y = keras.tree.map_structure(lambda value: value[:2], self.data)
        try:
            outputs = self.forward(x, self.params, self.others, 0, 0)
            labels = self.data[1]
            functional.example_loss.check_labels(self.loss, labels, outputs)
            nll = functional.example_loss.negative_log_likelihood(
                self.loss, y, outputs
            )
        except Exception as error:
            shapes = keras.tree.map_structure(
                lambda value: tuple(value.shape), self.data
            )
            raise ValueError(
                "The model and its loss cannot be evaluated on the data. "
                f"Received: x of shape {shapes[0]}, y of shape {shapes[1]}, "
                f"loss={self.loss!r} ({error})"
            ) from error
        if any(
            getattr(output, "_keras_mask", None) is not None
            for output in keras.tree.flatten(outputs)
        ):
            raise ValueError(
                f"The outputs of the model '{self.model.name}' are masked: "
                "refinement does not weigh the likelihood by masks."
            )
        count = keras.tree.flatten(x)[0].shape[0]
        if nll.shape.rank != 0 and tuple(nll.shape) != (count,):
            raise ValueError(
                "The loss must return one value for each example, `[B]`: over "
                "further axes `fit` takes the mean, and the bound needs the "
                f"sum. Received: shape {tuple(nll.shape)} for {count} examples"
            )
        return nll.numpy()


def check_finite(model, **values):
    """Checks that what was trained is finite.

    Args:
        model: `keras.Model`, for the error.
        **values: Arrays or nested structures of them, by what they are.

    Raises:
        ValueError: If one is not.
    """
    for name, value in values.items():
        for leaf in keras.tree.flatten(value):
            if leaf is not None and not np.all(np.isfinite(leaf)):
                raise ValueError(
                    f"The {name} of the model '{model.name}' must be finite. "
                    "Received: NaN or infinite values. Did training diverge?"
                )
