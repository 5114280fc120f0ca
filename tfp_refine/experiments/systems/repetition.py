"""One repetition of an experiment: data, and the systems fitted to them."""

import dataclasses
import functools
import pathlib
import re
import time
from collections.abc import Callable

import keras
import numpy as np
from absl import logging

from tfp_refine import datasets
from tfp_refine import functional
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.harness import memory
from tfp_refine.experiments.systems import fitted as fitted_lib
from tfp_refine.experiments.systems import networks
from tfp_refine.experiments.systems import registry
from tfp_refine.experiments.systems import variational

# Random streams, below the seed and the number of the repetition.
_STREAMS = (
    "weights",
    "predictions",
    "refinement",
    "training",
    "ensemble",
    "swag",
    "csghmc",
    "tuning",
    "flows",
    "nuts",
    "bound",
    "measures",
    "held_out",
)
# One of so many training examples is held out.
_HELD_OUT = 5


class Repetition:
    """All systems, fitted to the same data from the same seed.

    Without a folder, nothing can be fitted. `observe` is a function of a `Fit`,
    a model and a segment of its history that returns more of the history. The
    prefix is that of the names of its records; the start numbers repetitions
    that differ in nothing but their seeds.
    """

    def __init__(
        self,
        config: fields.Bench,
        data: dataset.Dataset,
        number: int = 0,
        folder: folder_lib.Folder | None = None,
        observe: Callable[..., dict[str, float]] | None = None,
        prefix: str = "",
        start: int = 0,
    ):
        self.config, self.data, self.number = config, data, number
        self.folder, self.observe = folder, observe
        self._prefix, self._start = prefix, start
        self._fitted, self._errors = {}, {}

    def seed(self, stream: str) -> int:
        """Returns the seed of a random stream."""
        seeds = [self.config.seed, self.number, _STREAMS.index(stream)]
        if self._start:
            seeds.append(self._start)
        return functional.seeds.key(*seeds)

    def restarted(self, start: int, num_starts: int) -> "Repetition":
        """Returns one of some that differ in their seeds, the first as this.

        Each has its share of the draws of a prediction.
        """
        share = self.config.num_samples // num_starts
        prefix = f"{self._prefix}start_{start}/" if start else self._prefix
        return Repetition(
            dataclasses.replace(self.config, num_samples=share),
            self.data,
            self.number,
            self.folder,
            prefix=prefix,
            start=start,
        )

    def held_out(self) -> "Repetition":
        """Returns one whose test data are a part of the training data of this.

        Raises:
            ValueError: If there are fewer than two training examples.
        """
        x, y = self.data.train
        count = -(-len(y) // _HELD_OUT)
        if count == len(y):
            raise ValueError(
                "Settings that held-out data choose need at least two training "
                f"examples. Received: {len(y)}"
            )
        order = np.random.default_rng(self.seed("held_out")).permutation(len(y))
        held, rest = order[:count], order[count:]
        data = dataclasses.replace(
            self.data, train=(x[rest], y[rest]), test=(x[held], y[held])
        )
        return Repetition(
            self.config,
            data,
            self.number,
            self.folder,
            prefix=f"{self._prefix}held_out/",
            start=self._start,
        )

    @functools.cached_property
    def num_weights(self):
        """Number of weights of the network without posteriors."""
        # Priors whose scale is a rule are no penalty.
        model = networks.build(
            networks.Network("map"), self.config, self.data, 0, penalized=False
        )
        return functional.WeightView(model).size

    def why_not(self, expression: registry.Expression) -> str | None:
        """Returns why a system cannot be applied, or `None`.

        Raises:
            ValueError: If its network cannot be built.
        """
        fit = Fit(self, expression)
        reason = networks.why_not(fit.network, fit.config)
        if reason is not None:
            return reason
        # Built without the options of systems that start from it.
        start = Fit(self, next(filter(registry.is_network, expression.chain)))
        networks.build(start.network, start.config, self.data, 0)
        for each in expression.chain:
            why_not = registry.SYSTEMS[each.name].why_not
            reason = why_not and why_not(Fit(self, each))
            if reason:
                return reason
        return None

    def fitted(
        self, expression: registry.Expression
    ) -> tuple[fitted_lib.Fitted, dict[str, float | None]]:
        """Fits a system, resumably; it is kept for those that start from it.

        Costs are `"fit_seconds"`, with those of its start, unless it was
        stopped once; and `"memory"`, MiB, where it is known.

        Raises:
            ValueError: If it, or its start, cannot be fitted.
        """
        name = str(expression)
        if name in self._errors:
            raise ValueError(f"{name} failed before: {self._errors[name]}")
        if name not in self._fitted:
            try:
                self._fitted[name] = self._fit(expression)
            except Exception as error:
                self._errors[name] = error
                raise
        return self._fitted[name]

    def path(self, expression: registry.Expression) -> str:
        """Returns the folder of a system, another one for other fields."""
        config = registry.configured(expression, self.config)
        names = registry.fields_of(expression)
        slug = re.sub(r"\W+", "_", registry.short(expression)).strip("_")
        slug = f"{slug}_{config.digest(names)}"
        return f"{self._prefix}seed_{self.number}/{slug}"

    def _fit(self, expression):
        system = registry.SYSTEMS[expression.name]
        starts = []
        if system.fit is not None and system.fits_start:
            starts = [self.fitted(expression.argument)]
        logging.info(
            "Repetition %d: %s", self.number, registry.short(expression)
        )
        fit, run = Fit(self, expression), system.fit or variational.train
        is_first = not fit.directory.exists()
        fit.directory.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        with memory.Peak() as peak:
            fitted = run(fit, *(start for start, _ in starts))
        seconds = time.monotonic() - begin
        if fitted.seconds is not None:
            seconds = fitted.seconds
        elif not is_first:
            seconds = None  # some of it was before
        own = self.folder.once(
            f"{self.path(expression)}/costs",
            lambda: {"fit_seconds": seconds, "memory": peak.mebibytes},
        )
        costs = [own, *(costs for _, costs in starts)]
        return fitted, {
            "fit_seconds": _combined(sum, costs, "fit_seconds"),
            "memory": _combined(max, costs, "memory"),
        }


class Fit:
    """The inputs of one fit.

    The configuration has the options of the system; the network is the one that
    it trains, or starts from.
    """

    def __init__(self, repetition: Repetition, expression: registry.Expression):
        self.repetition, self.expression = repetition, expression
        self.data, self.seed = repetition.data, repetition.seed
        self.config = registry.configured(expression, repetition.config)
        self.network = registry.network_of(expression)

    @property
    def directory(self) -> pathlib.Path:
        """Folder of the checkpoints of the fit."""
        of = self.repetition
        return of.folder.path / of.path(self.expression) / "fit"

    @property
    def num_draws(self) -> int:
        """Number of draws of a prediction."""
        is_random = (
            self.network.is_random or self.expression.name == "converted"
        )
        return self.config.num_samples if is_random else 1

    def predictive(
        self, model: keras.Model
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Returns the `Fitted.draws` of a compiled model."""
        seed = self.seed("predictions")
        return fitted_lib.predictive(model, self.num_draws, seed)

    @property
    def observe(self):
        """Function of a model and a segment that returns more of the latter."""
        observe = self.repetition.observe
        return observe and functools.partial(observe, self)

    @property
    def augmentation(self):
        """Function that augments a batch of images, or `None`."""
        if self.config.augment == "none":
            return None
        return functools.partial(
            datasets.crop_and_flip,
            padding=max(1, min(self.data.train[0].shape[1:3]) // 8),
            flip=self.config.augment == "crop_and_flip",
        )


def _combined(combine, costs, key):
    """Combines costs; `None` if one of them is not known."""
    values = [each[key] for each in costs]
    return None if None in values else combine(values)
