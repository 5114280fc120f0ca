"""A Keras model with several sets of weights."""

import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.ensembles import ensemble_file


class WeightEnsemble:
    """Equally weighted members: one model, a set of weights for each.

    Made by `deep_ensemble`, or loaded from a file; not usually constructed.

    Args:
        model: Built `keras.Model`, of which only the architecture matters.
        params: Trainable weights, `[M, P]`, in the order of
            `model.trainable_weights`, each flattened.
        others: Other weights, such as moving averages, `[M, V]`, likewise.
        history: Dict of arrays, see the attribute.

    Attributes:
        params: Trainable weights, array `[M, P]`.
        others: Other weights, array `[M, V]`.
        history: Dict of arrays: `step [T]`, and `loss [M, T]`, the mean
            training loss since the step before.
    """

    def __init__(self, model, params, others, history):
        self.params, self.others = params, others
        self.history = history
        self._model = model
        self._weights = functional.ModelWeights(model)
        self._predictor = functional.Predictor(
            self._forward,
            lambda x: functional.arrays.check_fits(model, x),
        )

    @property
    def model(self):
        """The model, `keras.Model`, whatever weights it has now."""
        return self._model

    @property
    def num_members(self):
        """`M`, the number of members."""
        return len(self.params)

    def predict(self, x, batch_size=1024):
        """Computes what the model returns, of every member.

        Args:
            x: Inputs, `[N, ...]` (or nested).
            batch_size: Examples computed at a time. Defaults to `1024`.

        Returns:
            draws: `numpy` array `[M, N, ...]` (or nested).

        Raises:
            ValueError: If an argument is invalid.
        """
        return self.predictive_draws(x, self.num_members, 0, batch_size)

    def predictive_draws(self, x, num_samples, seed=None, batch_size=1024):
        """Draws what the model returns; see `tfp_refine.predict`.

        Args:
            x: Inputs, `[N, ...]` (or nested).
            num_samples: `S`, number of draws; draw `s` is of member `s % M`.
            seed: Integer that fixes the noise of layers that have some.
            batch_size: Examples computed at a time. Defaults to `1024`.

        Returns:
            draws: `numpy` array `[S, N, ...]` (or nested).

        Raises:
            ValueError: If an argument is invalid.
        """
        both = np.concatenate([self.params, self.others], axis=1)
        return self._predictor(x, both, (), num_samples, seed, batch_size)

    def sample(self, num_samples, seed=None):
        """Draws members' trainable weights.

        Args:
            num_samples: `S`, number of draws.
            seed: Integer that fixes them; fresh ones if `None`.

        Returns:
            params: Each member once before any is drawn again, array `[S, P]`.

        Raises:
            ValueError: If an argument is invalid.
        """
        _validation.positive_integer("num_samples", num_samples)
        rng = np.random.default_rng(functional.seeds.check(seed))
        rounds = -(-num_samples // self.num_members)
        order = [rng.permutation(self.num_members) for _ in range(rounds)]
        return self.params[np.concatenate(order)[:num_samples]]

    def assign_member(self, index):
        """Gives the model the weights of one member.

        Args:
            index: From 0 to `num_members - 1`.

        Returns:
            model: The model of the ensemble.

        Raises:
            IndexError: If there is no such member.
        """
        if not 0 <= index < self.num_members:
            raise IndexError(
                f"`index` must be in [0, {self.num_members}). "
                f"Received: index={index}"
            )
        self._weights.assign(self.params[index], self.others[index])
        return self._model

    def save(self, path):
        """Saves the members to a file, for `load`.

        Args:
            path: File; its usual ending is `.npz`.

        Raises:
            ValueError: If it cannot be written.
        """
        ensemble_file.write(
            path,
            type(self).__name__,
            self._model,
            {
                "params": self.params,
                "others": self.others,
                **{f"history_{k}": v for k, v in self.history.items()},
            },
        )

    @classmethod
    def load(cls, path, model):
        """Loads what `save` saved.

        Args:
            path: File.
            model: Built `keras.Model` of the same architecture.

        Returns:
            ensemble: `WeightEnsemble`.

        Raises:
            ValueError: If the file cannot be read, or is of another model.
        """
        arrays = ensemble_file.read(path, cls.__name__, model)
        history = {
            name.removeprefix("history_"): value
            for name, value in arrays.items()
            if name.startswith("history_")
        }
        return cls(model, arrays["params"], arrays["others"], history)

    def _forward(self, x, member, others, key, index):
        """Calls the model as one member, for `Predictor`."""
        del others  # they are the member's
        params, others = tf.split(
            member, [self._weights.size, self._weights.num_others]
        )
        outputs, _, _ = self._weights.outputs(x, params, others, key, index)
        return outputs
