"""Temperature scaling of a trained classifier."""

import functools
import math
from typing import Any

import keras
import numpy as np
import scipy.optimize
import scipy.special
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.functional import copying
from tfp_refine.functional import files
from tfp_refine.functional import likelihoods
from tfp_refine.functional import links
from tfp_refine.posteriors.protocol import Draws

# Links of labels that do not exclude each other.
_OF_LABELS = tuple(links.Link("sigmoid", known) for known in (True, False))
# Logarithms of the least and the greatest temperature.
_LOWEST, _HIGHEST = math.log(1e-3), math.log(1e3)


class TemperatureScaling(posteriors.Posterior):
    """A trained classifier whose logits are divided by one number.

    The number, the temperature, minimizes the negative log likelihood of
    validation data. The most probable class stays the same. All draws are
    equal: the weights of the last layer, divided by the temperature.

    Args:
        model: Built `keras.Model` that ends in a Dense layer and returns
            logits or, after a softmax (or a sigmoid, for one output, or for
            labels that do not exclude each other), probabilities. Of several
            logits the loss that it was compiled with says which. It is not
            changed.
        layer: That layer, or its name; found if `None`.

    Raises:
        ValueError: If the model is not one of these.

    Attributes:
        temperature: Positive float; 1 before `fit`.

    Example:

    ```python
    scaled = tfp_refine.ensembles.TemperatureScaling(model)
    scaled.fit(x_validation, y_validation)
    probs = scaled.predict_proba(x_test, num_samples=1)
    ```

    Reference:
        - [Guo et al., 2017](https://arxiv.org/abs/1706.04599)
    """

    def __init__(
        self,
        model: keras.Model,
        layer: keras.layers.Layer | str | None = None,
    ) -> None:
        super().__init__(functional.LastLayerView(model, layer))
        self.temperature = 1.0
        specs = copying.find_input_specs(model)
        if specs is not None and all(
            None not in spec.shape[1:] for spec in keras.tree.flatten(specs)
        ):
            self._set_up(_examples(specs))

    def _shown_arguments(self):
        return super()._shown_arguments() | {"temperature": self.temperature}

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: dict[int, float] | None = None,
        batch_size: int = 256,
    ) -> "TemperatureScaling":
        """Chooses the temperature.

        Args:
            x: Validation inputs, `[N, ...]` (or nested), or batches of `(x,
                y)` or `(x, y, sample_weight)`, such as a `tf.data.Dataset`, a
                `keras.utils.PyDataset` or a generator. Not those that the model
                was trained on.
            y: Class numbers `[N]` or one-hot rows `[N, C]`, or labels 0 and 1,
                `[N, C]`, if these do not exclude each other.
            sample_weight: Weights, `[N]`: the likelihood of an example counts
                as often as its weight says. `None` for batches.
            class_weight: Weights by class number, a dict, in place of
                `sample_weight`; 1 for those left out.
            batch_size: Examples computed at a time. Defaults to `256`.

        Returns:
            self: This object.

        Raises:
            ValueError: If data are invalid or do not fit the model, or no
                temperature is best: all of them, or none, are classified right.
        """
        _validation.positive_integer("batch_size", batch_size)
        x, y, weights, num_examples = functional.data.weighted(
            x, y, sample_weight, class_weight
        )
        x = self.view.fit_inputs(x)
        self.view.find_positions(x)
        self.view.check_no_positions()
        likelihood = self._set_up(x)
        view = self.view
        targets = likelihood.targets(y, view.num_outputs)
        logits = view.outputs(self._loc, view.inputs(x, batch_size)).numpy()
        if view.num_outputs == 1:
            logits = np.concatenate([np.zeros_like(logits), logits], axis=-1)
        if likelihood.kind == "multilabel":
            probabilities = scipy.special.expit
        else:
            probabilities = functools.partial(scipy.special.softmax, axis=-1)
            targets = np.eye(logits.shape[1], dtype=logits.dtype)[targets]
        chosen = np.sum(logits * targets, axis=-1)

        def derivative(log_temperature):
            """Computes the derivative of the NLL by 1 / temperature."""
            probs = probabilities(logits / math.exp(log_temperature))
            slopes = np.sum(probs * logits, axis=-1) - chosen
            return np.average(slopes, weights=weights)

        # It falls as the temperature rises: the loss is convex in the inverse.
        if derivative(_LOWEST) <= 0.0 or derivative(_HIGHEST) >= 0.0:
            raise ValueError(
                "No temperature is best for the validation data, `x` and `y`: "
                "all of them are classified right, or none better than by "
                f"chance, of {num_examples}. More data are needed."
            )
        self.spread = 1.0
        self.temperature = math.exp(
            scipy.optimize.brentq(derivative, _LOWEST, _HIGHEST, xtol=1e-12)
        )
        return self

    def _set_up(self, x):
        """Takes over the weights, after a look at the model's outputs."""
        view = self.view
        kind = "classification"
        link = links.find(view.model)
        if view.num_outputs > 1 and link in _OF_LABELS:
            kind = "multilabel"
        likelihoods.check_loss(view.model, kind, view.num_outputs)
        likelihood = likelihoods.of_kind(kind, view.num_outputs)
        activation = view.find_activation(x, likelihood.activations)
        self.link = likelihoods.link_of(kind, view.num_outputs, activation)
        self._loc, self._fixed = view.params(), view.fixed()
        return likelihood

    def _check_ready(self):
        if self.view.activation is None:
            raise ValueError(
                "The shape of the inputs is unknown: call `fit` first."
            )

    def _draw(self, num_samples, seed, at_once):
        del seed, at_once
        yield Draws(
            tf.cast(self._loc / self.temperature, self.view.dtype)[tf.newaxis],
            np.zeros(num_samples, np.int32),
            self._fixed,
        )

    def _contents(self):
        return {"temperature": self.temperature}, {
            "loc": self._loc,
            **files.pack(self._fixed),
        }

    @classmethod
    def _from_contents(cls, view, link, description, arrays):
        scaled = cls(view.model, view.layer)
        scaled.view, scaled.link = view, link
        scaled.temperature = description["temperature"]
        scaled._loc = arrays["loc"]
        scaled._fixed = files.unpack(arrays)
        return scaled


def _examples(specs):
    """Returns some inputs, to probe a model with."""
    rng = np.random.default_rng(0)

    def some(spec):
        shape = [8, *spec.shape[1:]]
        if spec.dtype.is_floating:
            return tf.cast(rng.standard_normal(shape), spec.dtype)
        return tf.zeros(shape, spec.dtype)

    return keras.tree.map_structure(some, specs)
