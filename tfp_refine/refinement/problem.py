"""A model, its data and its likelihood, checked to fit each other."""

import warnings

import keras
import numpy as np

from tfp_refine import stateless
from tfp_refine.refinement import sampling_forward


class Problem:
    """What a refinement is about. Nothing of it changes.

    Args:
        model: Built `keras.Model` with variational layers.
        x: Training inputs, as for `refine`.
        y: Training targets, as for `refine`.
        loss: Negative log likelihood, as for `refine`.
        refine_deterministic: Whether `params` include the trainable weights
            without a posterior.

    Attributes:
        model: The model.
        layout: Its `WeightLayout`.
        forward: Its `Forward`; layers draw their weights.
        others: Values of its weights that are not in `params`.
        params: Its mean-field posterior, `[2, W]`, and after it, if asked
            for, its trainable deterministic weights.
        prior: Its prior, `(loc [W], scale [W])`.
        loss: What `example_loss.resolve` returned.
        data: `(x, y)`, tensors `[N, ...]` (or nested).
        num_examples: `N`.
        head_nll: Negative log likelihood of the first examples at a fixed
            draw, to tell problems apart.

    Raises:
        ValueError: If model, data and likelihood do not fit each other.
    """

    def __init__(self, model, x, y, loss, refine_deterministic=False):
        self.model = model
        self.layout = stateless.WeightLayout(model, refine_deterministic)
        self.prior = self.layout.prior()
        self.params = self.layout.params()
        self.loss = stateless.example_loss.resolve(model, loss)
        x, y, self.num_examples = stateless.arrays.examples(x, y)
        stateless.arrays.check_fits(model, x)
        self.data = (x, y)
        self.forward = sampling_forward.sampling_forward(model, self.layout)
        self.others = self.forward.other_values()
        self._check_layers()
        self._check_points()
        self._check_finite()
        self.head_nll = self._check_likelihood()

    def _check_layers(self):
        """Refuses what the bound of the trained posterior does not allow."""
        for layer in self.model._flatten_layers():
            if not getattr(layer, "variational_weights", ()):
                continue
            if not layer.sample:
                raise ValueError(
                    f"Layer '{layer.name}' has sample=False: without draws of "
                    "its weights there is no bound to compute."
                )
            for weight in layer.variational_weights:
                if not weight.loc.trainable or weight.loc.constraint:
                    raise ValueError(
                        f"Variational weight '{weight.loc.path}' is frozen or "
                        "constrained: refinement moves weights freely. Make "
                        "its posterior None, or lift the constraint."
                    )
            told = layer.num_train_examples
            if told not in (None, self.num_examples):
                warnings.warn(
                    f"Layer '{layer.name}' was trained with num_train_examples="
                    f"{told}, but there are {self.num_examples} examples here.",
                    UserWarning,
                    stacklevel=6,
                )
                break

    def _check_points(self):
        """Refuses deterministic weights that refinement may not move freely."""
        for variable in self.layout.points:
            if variable.constraint:
                raise ValueError(
                    f"Weight '{variable.path}' is constrained: refinement "
                    "moves weights freely. Freeze it, lift the constraint, or "
                    "pass refine_deterministic=False."
                )

    def _check_finite(self):
        for name, value in (
            ("posterior", self.params),
            ("prior", self.prior),
            ("deterministic weights", self.others),
        ):
            for leaf in keras.tree.flatten(value):
                if not np.all(np.isfinite(leaf)):
                    raise ValueError(
                        f"The {name} of the model '{self.model.name}' must be "
                        "finite; it holds NaN or infinite values. Did training "
                        "diverge?"
                    )

    def _check_likelihood(self):
        """Runs two examples, so that a mismatch shows before long work."""
        x, y = keras.tree.map_structure(lambda value: value[:2], self.data)
        try:
            outputs = self.forward(x, self.params, self.others, 0, 0)
            labels = self.data[1]
            stateless.example_loss.check_labels(self.loss, labels, outputs)
            nll = stateless.example_loss.negative_log_likelihood(
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
