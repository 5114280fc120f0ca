"""What every posterior of a trained network's weights can do."""

import abc

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.posteriors import posterior_file

# Numbers of draws, and of outputs, that are held at once: 64 MiB of float32.
_MAX_NUMBERS = 2**24
# Examples computed at a time, as activations of all layers may be many.
_MAX_ROWS = 1024


class WeightPosterior(abc.ABC):
    """Distribution of a vector of weights of a trained network.

    A subclass says how to draw weights.

    Args:
        network: `LastLayer` or `AllLayers`.
        likelihood: Likelihood of targets given the network's outputs.
        activation: Name of what the model applies to these outputs, one of the
            likelihood's.
    """

    def __init__(self, network, likelihood=None, activation=None):
        self.network = network
        self._likelihood = likelihood
        self._activation = activation
        self._programs = {}
        self._digest = network.digest()

    @property
    def likelihood(self):
        """Likelihood of targets given the outputs of the network."""
        return self._likelihood

    @property
    def activation(self):
        """Name of what the model applies to these outputs."""
        return self._activation

    @abc.abstractmethod
    def _sampler(self, seed):
        """Begins a stream of draws.

        Args:
            seed: Integer.

        Returns:
            draw: Function of a number `S` that returns the next draws, a
                `numpy` array `[S, D]`.
        """

    @abc.abstractmethod
    def contents(self):
        """Returns what a file of it holds, besides network and likelihood.

        Returns:
            description: Dict that JSON can hold.
            arrays: Dict of arrays.

        Raises:
            ValueError: If there is nothing to save yet.
        """

    @classmethod
    @abc.abstractmethod
    def from_contents(cls, network, likelihood, description, arrays):
        """Restores what `contents` returned.

        Args:
            network: `LastLayer` or `AllLayers`.
            likelihood: Likelihood of targets given its outputs.
            description: Dict, with the name of the `"activation"` and the
                `"noise_scale"` too.
            arrays: Dict of arrays.

        Returns:
            posterior: Of this class.
        """

    def save(self, path):
        """Saves the posterior to a file, for `load`.

        Training data are not saved, nor is the model.

        Args:
            path: File; its usual ending is `.npz`.

        Raises:
            ValueError: If there is nothing to save yet, the model has other
                weights than it had, or the file cannot be written.
        """
        if self.network.digest() != self._digest:
            raise ValueError(
                f"The model '{self.network.model.name}' has changed since the "
                "posterior was computed, which is not one of these weights: it "
                "must be computed again."
            )
        posterior_file.write(path, self, type(self).__name__, *self.contents())

    @classmethod
    def load(cls, path, model):
        """Loads what `save` saved.

        Args:
            path: File.
            model: `keras.Model` that the posterior is of, with the weights that
                it had.

        Returns:
            posterior: Of this class.

        Raises:
            ValueError: If the file cannot be read, or is of another model.
        """
        return cls.from_contents(
            *posterior_file.read(path, cls.__name__, model)
        )

    def sample(self, num_samples, seed=None):
        """Draws weights.

        Args:
            num_samples: `S`, number of draws.
            seed: Integer that fixes the draws; fresh ones if `None`.

        Returns:
            theta: float64 array, `[S, D]`, in the order of `mean`.

        Raises:
            ValueError: If an argument is invalid.
        """
        _validation.positive_integer("num_samples", num_samples)
        draw = self._sampler(functional.seeds.check(seed))
        return np.asarray(draw(num_samples), np.float64)

    def predictive_draws(self, x, num_samples, seed=None, batch_size=1024):
        """Draws what the model returns; see `tfp_refine.predict`.

        Args:
            x: Inputs, `[N, ...]` (or nested).
            num_samples: `S`, number of draws.
            seed: Integer that fixes the draws; fresh ones if `None`.
            batch_size: Examples computed at a time.

        Returns:
            draws: `numpy` array `[S, N, C]`.

        Raises:
            ValueError: If an argument is invalid.
        """
        return self._draws(
            self.likelihood.activations[self.activation],
            x,
            num_samples,
            seed,
            batch_size,
            average=False,
        )

    def predict(
        self, x, num_samples=100, seed=None, *, batch_size=1024, average=False
    ):
        """Draws class probabilities, or the means of a regression.

        Exact: more draws bring their average to that under this posterior. One
        draw of the weights is that of all examples.

        Args:
            x: Inputs, `[N, ...]` (or nested).
            num_samples: `S`, number of draws. Defaults to `100`.
            seed: Integer that fixes the draws; fresh ones if `None`.
            batch_size: Examples computed at a time. Defaults to `1024`.
            average: Whether draws are averaged: then memory does not depend on
                their number. Defaults to `False`.

        Returns:
            draws: `numpy` array `[S, N, C]`, with `C = 2` for a single output
                that is the logit of the second class; `[1, N, C]` if averaged.

        Raises:
            ValueError: If an argument is invalid.
        """
        return self._draws(
            self.likelihood.predictions,
            x,
            num_samples,
            seed,
            batch_size,
            average,
        )

    def _draws(self, function, x, num_samples, seed, batch_size, average):
        """Draws functions of outputs, `[S, N, K]` or, averaged, `[1, N, K]`."""
        _validation.positive_integer("num_samples", num_samples)
        seed = functional.seeds.check(seed)
        inputs, num_examples = self._inputs(x, batch_size)
        draws = self._draws_from_inputs(
            function, inputs, num_examples, num_samples, seed, average
        )
        check_finite(draws)
        return draws

    def _draws_from_inputs(
        self, function, inputs, num_examples, num_samples, seed, average
    ):
        """Draws as `_draws`, from what the network takes."""
        draw = self._sampler(seed)
        program = self._program(function, inputs)
        per_block = min(num_samples, max(1, _MAX_NUMBERS // self.network.size))
        rows_at_once = min(
            _MAX_ROWS,
            max(1, _MAX_NUMBERS // (per_block * self.network.num_outputs)),
        )
        draws = None
        for begin in range(0, num_samples, per_block):
            samples = slice(begin, min(begin + per_block, num_samples))
            # Not in one: NumPy would warn of what is checked below.
            theta = tf.constant(draw(samples.stop - begin))
            theta = tf.cast(theta, self.network.dtype)
            for first in range(0, num_examples, rows_at_once):
                rows = slice(first, first + rows_at_once)
                block = program(theta, take(inputs, rows)).numpy()
                if draws is None:
                    shape = (1 if average else num_samples, num_examples)
                    draws = np.zeros((*shape, block.shape[-1]), block.dtype)
                if average:
                    draws[0, rows] += block.sum(axis=0) / num_samples
                else:
                    draws[samples, rows] = block
        return draws

    def _inputs(self, x, batch_size):
        """Returns what the network takes, and the number of examples."""
        _validation.positive_integer("batch_size", batch_size)
        x = functional.arrays.inputs(x)
        functional.arrays.check_fits(self.network.model, x)
        inputs = self.network.inputs(x, batch_size)
        return inputs, keras.tree.flatten(x)[0].shape[0]

    def _program(self, function, inputs):
        """Finds the compiled function of outputs."""
        specs = keras.tree.map_structure(
            lambda v: (v.shape[1:], v.dtype), inputs
        )
        return self._programs.setdefault(
            f"{function.__name__} {specs}",
            functional.Program(
                lambda theta, inputs: function(
                    self.network.outputs(theta, inputs)
                ),
                varying=(True, True),
            ),
        )


def check_finite(predictions):
    """Checks predictions.

    Args:
        predictions: What users get, array.

    Raises:
        ValueError: If they are not finite.
    """
    bad = np.count_nonzero(~np.isfinite(predictions))
    if bad:
        raise ValueError(
            f"Predictions must be finite. Received: {bad} of "
            f"{predictions.size} numbers are NaN or infinite. The prior's "
            "precision may be too small, or features too large: normalize "
            "them."
        )


def take(inputs, rows):
    """Takes examples of an array or of nested arrays.

    Args:
        inputs: `[N, ...]` (or nested).
        rows: A slice.

    Returns:
        inputs: `[B, ...]` (or nested).
    """
    return keras.tree.map_structure(lambda leaf: leaf[rows], inputs)
