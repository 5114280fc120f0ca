"""One repetition of the comparison: its data, and the systems fitted to it."""

import functools
import math
import time

from absl import flags
from absl import logging

from tfp_refine import functional
from tfp_refine import losses
from tfp_refine.experiments import compare_evaluation
from tfp_refine.experiments import compare_networks
from tfp_refine.experiments import compare_systems
from tfp_refine.experiments import peak_memory
from tfp_refine.experiments import record
from tfp_refine.experiments import shift_flags

FLAGS = flags.FLAGS


class Run:
    """All systems, fitted to the same data from the same seed.

    Args:
        number: Number of the repetition, from 0.
        data: `class_data.Data` or `compare_data.Regression`.
        folder: `record.Folder`, or `None` if nothing is to be fitted.

    Attributes:
        data: The same.
        loss: Regression: the loss; `None` stands for that of classes.
    """

    def __init__(self, number, data, folder):
        self.data = data
        self.loss = None
        if data.num_classes is None:
            self.loss = losses.HeteroscedasticGaussianNLL()
        self._number, self._folder = number, folder
        self._fitted, self._errors = {}, {}

    def seed(self, stream):
        """Returns the seed of a random stream, an integer."""
        return functional.seeds.key(FLAGS.seed, self._number, stream)

    @functools.cached_property
    def num_weights(self):
        """Number of weights of the network without posteriors."""
        model = compare_networks.build("map", self.data, self.seed(0), 1)
        return sum(
            math.prod(weight.shape) for weight in model.trainable_weights
        )

    def reason(self, name):
        """Returns why a system cannot be applied, or `None`."""
        reason = compare_systems.SYSTEMS[name].reason
        return reason and reason(self)

    def result(self, name):
        """Fits and evaluates a system, if that is not done yet.

        Args:
            name: Name of a system.

        Returns:
            result: Dict of metrics, and of what it cost as far as is known.

        Raises:
            ValueError: If it cannot be fitted.
        """

        def compute():
            fitted, costs = self.fitted(name)
            logging.info("Repetition %d: predictions of %s", self._number, name)
            return costs | compare_evaluation.evaluate(fitted, self.data)

        return _known(self._folder.once(self._record(name), compute))

    def stored(self, name):
        """Returns the result of a system from an earlier start, or `None`."""
        path = self._folder.path / f"{self._record(name)}.json"
        result = record.read(path)
        return result and _known(result)

    def fitted(self, name):
        """Fits a system, resumably; it is kept for those that start from it.

        Args:
            name: Name of a system.

        Returns:
            fitted: `fitted.Fitted`.
            costs: Dict of floats: `"fit_seconds"`, those of its bases
                included, unless an earlier start was stopped; `"memory"`,
                MiB, where it is known.
        """
        if name in self._errors:
            raise ValueError(f"{name} failed before: {self._errors[name]}")
        if name not in self._fitted:
            try:
                self._fitted[name] = self._fit(name)
            except Exception as error:
                self._errors[name] = error
                raise
        return self._fitted[name]

    def _fit(self, name):
        system = compare_systems.SYSTEMS[name]
        bases, base_costs = [], []
        for base in system.bases:
            fitted, costs = self.fitted(base)
            bases.append(fitted)
            base_costs.append(costs)
        logging.info("Repetition %d: %s", self._number, name)
        path = self._path(name)
        directory = self._folder.path / path / "fit"
        is_first = not directory.exists()
        directory.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        with peak_memory.Peak() as peak:
            fitted = system.fit(self, name, directory, *bases)
        seconds = time.monotonic() - begin
        if fitted.seconds is not None:
            seconds = fitted.seconds
        elif not is_first:
            seconds = None  # some of it was before
        own = self._folder.once(
            f"{path}/costs",
            lambda: {"fit_seconds": seconds, "memory": peak.mebibytes},
        )
        costs = {
            "fit_seconds": _total(sum, own, base_costs, "fit_seconds"),
            "memory": _total(max, own, base_costs, "memory"),
        }
        return fitted, costs

    def _record(self, name):
        """Returns the name of a result's record."""
        evaluation = [FLAGS.num_samples]
        if self.data.num_classes is not None:
            evaluation += [FLAGS[f].value for f in shift_flags.EVALUATION]
            evaluation += [
                [key, record.digest(x)] for key, x in self.data.unseen.items()
            ]
        return f"{self._path(name)}/result_{record.digest_of_json(evaluation)}"

    def _path(self, name):
        """Returns the folder of a system, another one for other flags of it."""
        values = {f: FLAGS[f].value for f in compare_systems.flags_of(name)}
        digest = record.digest_of_json(values)
        return f"seed_{self._number}/{name}_{digest}"


def _known(result):
    """Returns a result without the time that its evaluation took too."""
    return {
        name: value
        for name, value in result.items()
        if name != "seconds" and value is not None
    }


def _total(combine, own, bases, key):
    """Combines costs; `None` if one of them is not known."""
    values = [own[key], *(costs[key] for costs in bases)]
    return None if None in values else combine(values)
