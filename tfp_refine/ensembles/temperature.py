"""Temperature scaling of a trained classifier."""

import json
import math
import pathlib

import keras
import numpy as np
import scipy.optimize
import scipy.special

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors

# Logarithms of the least and the greatest temperature.
_LOWEST, _HIGHEST = math.log(1e-3), math.log(1e3)


class TemperatureScaling:
    """A trained classifier whose logits are divided by one number.

    The number, the temperature, minimizes the negative log likelihood of
    validation data. Which class is the most probable stays the same.

    Args:
        model: Built `keras.Model` that ends in a Dense layer and returns
            logits or, after a softmax (or a sigmoid, for one output),
            probabilities. It is not changed.
        layer: That layer, or its name; found if `None`.

    Raises:
        ValueError: If it is no such model.

    Attributes:
        temperature: Positive float; 1 before `fit`.

    Example:

    ```python
    scaled = tfp_refine.ensembles.TemperatureScaling(model)
    scaled.fit(x_validation, y_validation)
    (probs,) = scaled.predict(x_test)
    ```

    Reference:
        - [Guo et al., 2017](https://arxiv.org/abs/1706.04599)
    """

    def __init__(self, model, layer=None):
        self._network = posteriors.LastLayer(model, layer)
        self.temperature = 1.0

    def fit(self, x, y=None, *, batch_size=256):
        """Chooses the temperature.

        Args:
            x: Validation inputs, `[N, ...]` (or nested), or a `tf.data.Dataset`
                of `(x, y)`, batched. Not those that the model was trained on.
            y: Class numbers `[N]` or one-hot rows `[N, C]`.
            batch_size: Examples computed at a time. Defaults to `256`.

        Returns:
            self: This object.

        Raises:
            ValueError: If data are invalid or do not fit the model, or no
                temperature is best: all of them, or none, are classified right.
        """
        _validation.positive_integer("batch_size", batch_size)
        x, y, _ = functional.arrays.examples(x, y)
        logits, likelihood = self._logits(x, batch_size)
        targets = likelihood.targets(y, self._network.num_outputs)

        def derivative(log_temperature):
            """Of the negative log likelihood, in 1 / temperature."""
            scaled = logits / math.exp(log_temperature)
            probs = scipy.special.softmax(scaled, axis=-1)
            chosen = logits[np.arange(len(targets)), targets]
            return np.mean(np.sum(probs * logits, axis=-1) - chosen)

        # It falls as the temperature rises: the loss is convex in the inverse.
        if derivative(_LOWEST) <= 0.0 or derivative(_HIGHEST) >= 0.0:
            raise ValueError(
                "No temperature is best for the validation data: all of them "
                f"are classified right, or none better than by chance, of "
                f"{len(targets)}. More data are needed."
            )
        self.temperature = math.exp(
            scipy.optimize.brentq(derivative, _LOWEST, _HIGHEST, xtol=1e-12)
        )
        return self

    def predict(self, x, *, batch_size=1024):
        """Computes class probabilities.

        Args:
            x: Inputs, `[N, ...]` (or nested).
            batch_size: Examples computed at a time. Defaults to `1024`.

        Returns:
            probs: `numpy` array `[1, N, C]`, one draw, with `C = 2` for a
                single output.

        Raises:
            ValueError: If an argument is invalid.
        """
        _validation.positive_integer("batch_size", batch_size)
        logits, _ = self._logits(functional.arrays.inputs(x), batch_size)
        probs = scipy.special.softmax(logits / self.temperature, axis=-1)
        return probs[np.newaxis].astype(keras.config.floatx())

    def save(self, path):
        """Saves the temperature to a file, for `load`.

        Args:
            path: File; its usual ending is `.json`.

        Raises:
            ValueError: If it cannot be written.
        """
        contents = {
            "temperature": self.temperature,
            "layer": self._network.layer and self._network.layer.name,
            "model": self._network.digest(),
        }
        try:
            pathlib.Path(path).write_text(json.dumps(contents))
        except OSError as error:
            raise ValueError(
                "`path` must be a file that can be written. "
                f"Received: path={str(path)!r} ({error})"
            ) from error

    @classmethod
    def load(cls, path, model):
        """Loads what `save` saved.

        Args:
            path: File.
            model: The model, with the weights that it had.

        Returns:
            scaled: `TemperatureScaling`.

        Raises:
            ValueError: If it cannot be read, or is of another model.
        """
        try:
            contents = json.loads(pathlib.Path(path).read_text())
            digest, layer = contents["model"], contents["layer"]
            temperature = _validation.positive(
                "temperature", contents["temperature"]
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"'{path}' holds no temperature: {error}"
            ) from error
        scaled = cls(model, layer)
        if scaled._network.digest() != digest:
            raise ValueError(
                f"The temperature in '{path}' is of another model than "
                f"'{model.name}', or of other weights of it."
            )
        scaled.temperature = temperature
        return scaled

    def _logits(self, x, batch_size):
        """Computes logits of at least two classes, `[N, C]`, in float64."""
        network = self._network
        network.check_inputs(x)
        likelihood = posteriors.likelihoods.of_kind(
            "classification", network.num_outputs
        )
        network.find_activation(x, likelihood.activations)
        logits = network.outputs(
            network.loc, network.inputs(x, batch_size)
        ).numpy()
        if network.num_outputs == 1:
            logits = np.concatenate([np.zeros_like(logits), logits], axis=-1)
        return logits, likelihood
