"""The bench: systems, fitted to a data set over several seeds, and measured."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.data import load
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.harness import tables
from tfp_refine.experiments.systems import fitted as fitted_lib
from tfp_refine.experiments.systems import networks
from tfp_refine.experiments.systems import registry
from tfp_refine.experiments.systems import repetition
from tfp_refine.experiments.systems import variational

# Fields of these groups decide the results of all systems.
_DECISIVE_GROUPS = ("data", "model", "training")


@dataclasses.dataclass(frozen=True)
class Measure:
    """A measurement of a fitted system.

    Attributes:
        name: Name of its record.
        compute: Function that returns two dicts: metrics, floats by their names
            (`None` where not known); and details for figures, for JSON.
        fields: Names of the fields that decide it, besides those of the fit.
        applies: Function that returns whether it has a meaning.
        key: Function that returns a text, part of a file's name, for everything
            else that decides it.
    """

    name: str
    compute: Callable[["Subject"], tuple[dict[str, Any], dict[str, Any]]]
    fields: tuple[str, ...] = ()
    applies: Callable[["Subject"], bool] = lambda subject: True
    key: Callable[["Subject"], str] = lambda subject: ""


class UnavailableError(Exception):
    """Another system failed, with which a measurement compares."""


class Subject:
    """A fitted system, as measures see it.

    Attributes:
        bench: `Bench`.
        repetition: `repetition.Repetition`.
        expression: `registry.Expression`.
        fit: `repetition.Fit`.
        config: `fields.Bench`, with the system's own options.
        data: `dataset.Dataset`.
    """

    def __init__(self, bench, of, expression):
        self.bench, self.repetition, self.expression = bench, of, expression
        self.data = of.data
        self.fit = repetition.Fit(of, expression)
        self.config = self.fit.config

    @property
    def fitted(self) -> fitted_lib.Fitted:
        """The system, fitted when it is first asked for."""
        return self.repetition.fitted(self.expression)[0]

    @property
    def costs(self) -> dict[str, float | None]:
        """Cost of the fit."""
        return self.repetition.fitted(self.expression)[1]

    def draws(self, x: Any = None) -> np.ndarray:
        """Returns draws of outputs, `[S, N, C]`; of test inputs by default.

        Raises:
            FloatingPointError: If they are not finite.
        """
        if x is not None:
            return folder_lib.finite(self.fitted.draws(x), "predictions")
        return self._test_draws

    @functools.cached_property
    def _test_draws(self):
        return self.draws(self.data.test[0])


@dataclasses.dataclass
class Results:
    """Results of an experiment.

    Attributes:
        experiment: Name of the experiment.
        kind: Kind of the data, one of `fields.KINDS`.
        given: The configuration as it was given.
        config: The same, filled.
        path: The folder.
        titles: Titles of the systems, by their short names.
        facts: Numbers: of `"num_train"`, `"num_validation"` and `"num_test"`
            examples; and `"num_weights"`, of the network without posteriors.
        rows: Data frame with the columns of `tables.COLUMNS`.
        details: Data of figures, by the short name of a system and the seed.
        reasons: Why a system was not fitted.
    """

    experiment: str
    kind: str
    given: fields.Bench
    config: fields.Bench
    path: pathlib.Path
    titles: dict[str, str] = dataclasses.field(default_factory=dict)
    facts: dict[str, int] = dataclasses.field(default_factory=dict)
    rows: Any = dataclasses.field(default_factory=lambda: tables.frame([]))
    details: dict[str, dict[int, dict[str, Any]]] = dataclasses.field(
        default_factory=dict
    )
    reasons: dict[str, str] = dataclasses.field(default_factory=dict)


class Bench:
    """All repetitions and systems; everything is checked before any is run.

    Args:
        experiment: Name of the experiment.
        config: Its configuration.
        measures: Measures of each system.
        observe: As for `repetition.Repetition`.
        kinds: Kinds of data that the experiment takes.
        load_data: Function of a configuration and the number of a repetition.

    Attributes:
        config: The configuration, filled.
        data: Data of the first repetition.
        kind: Kind of the data.

    Raises:
        ValueError: If fields are invalid, or no system can be applied.
        FileNotFoundError: If data are missing.
    """

    def __init__(
        self,
        experiment: str,
        config: fields.Bench,
        measures: Sequence[Measure],
        observe: Callable[..., dict[str, float]] | None = None,
        kinds: Sequence[str] = fields.KINDS,
        load_data: Callable[..., dataset.Dataset] = load.load,
    ):
        self.experiment, self._measures = experiment, measures
        self._given, self._observe = config, observe
        self._load = load_data
        if config.distributed:
            variational.connect()
        self.kind = load.kind_of(config)
        if self.kind not in kinds:
            close = load.close_names(config.dataset)
            asked = f". Did you mean {' or '.join(close)}?" if close else ""
            raise ValueError(
                f"--dataset must be of the kind {' or '.join(kinds)}. --list "
                "prints the sets that are known by name; give --kind for "
                "others. python -m tfp_refine.experiments.compare takes any "
                f"kind. Received: --dataset={config.dataset}, taken for "
                f"{self.kind}{asked}"
            )
        path = f"results/{experiment}/{config.dataset}"
        config = config.with_defaults(
            {"output_dir": path, **config.before_data(self.kind)}
        )
        self.data = self._load(config)
        x = self.data.train[0]
        self.config = config.with_defaults(
            config.after_data(self.kind, x.shape[1:], len(x))
        )
        networks.check_model(self.config, self.kind)
        self._weights = None
        if networks.is_file(self.config):
            trained = networks.load(self.config, self.data)
            self._weights = folder_lib.digest(*trained.get_weights())
        parsed = self._parse()
        first = repetition.Repetition(self.config, self.data)
        reasons = {name: first.why_not(of) for name, of in parsed.items()}
        self._reasons = {n: r for n, r in reasons.items() if r is not None}
        self._expressions = {
            name: of for name, of in parsed.items() if name not in self._reasons
        }
        if not self._expressions:
            raise ValueError(
                f"None of --systems can be applied. {_listed(self._reasons)}"
            )
        for name, reason in self._reasons.items():
            logging.warning("%s is left out: %s", name, reason)
        self._titles = {n: registry.title(of) for n, of in parsed.items()}
        self._facts = {
            "num_train": len(x),
            "num_validation": len(self.data.validation[1]),
            "num_test": len(self.data.test[1]),
            "num_weights": first.num_weights,
        }

    def run(self, report: Callable[[Results], None] | None = None) -> Results:
        """Fits and measures missing systems.

        Args:
            report: Function that is called after each repetition.

        Raises:
            ValueError: If every system failed.
        """
        config = self.config
        decides = {
            "data": self.data.digest,
            "weights": self._weights,
            **config.decisive(_DECISIVE_GROUPS),
        }
        with folder_lib.Folder(
            config.output_dir, self.experiment, config, decides
        ) as folder:
            results = Results(
                self.experiment, self.kind, self._given, config, folder.path,
                self._titles, self._facts,
            )  # fmt: skip
            failures, rows = {}, []
            for number in range(config.seeds):
                data = self._load(config, number) if number else self.data
                of = repetition.Repetition(
                    config, data, number, folder, self._observe
                )
                for name, expression in self._expressions.items():
                    try:
                        metrics, details = self._measure(
                            folder, Subject(self, of, expression)
                        )
                    except (OSError, folder_lib.DamagedError):
                        raise
                    except Exception as error:  # of any kind: others go on
                        if isinstance(error.__context__, KeyboardInterrupt):
                            raise
                        _report_failure(name, error)
                        failures.setdefault(name, _one_line(error))
                        continue
                    results.details.setdefault(name, {})[number] = details
                    rows += [
                        (config.dataset, name, number, metric, value)
                        for metric, value in metrics.items()
                    ]
                results.rows = tables.frame(rows)
                results.reasons = {
                    **{
                        n: f"not applied. {r}" for n, r in self._reasons.items()
                    },
                    **{n: f"failed. {r}" for n, r in failures.items()},
                }
                folder.write_results(
                    rows, config=config, extra={"reasons": results.reasons}
                )
                if report is not None and rows:
                    report(results)
        if not rows:
            raise ValueError(f"All of --systems failed. {_listed(failures)}")
        return results

    def expressions(self) -> dict[str, registry.Expression]:
        """Returns the fitted systems, by short names."""
        return self._expressions

    def _parse(self):
        names = self.config.systems
        if names == ("all",):
            names = registry.ALL
        found = {}
        for text in names:
            expression = registry.parse(text, type(self.config))
            name = registry.short(expression)
            if name in found:
                raise ValueError(
                    "--systems must hold each system once. Received: "
                    f"{','.join(self.config.systems)}"
                )
            found[name] = expression
        return found

    def _measure(self, folder, subject):
        """Returns all metrics and details of a system."""
        path = subject.repetition.path(subject.expression)
        metrics, details = {}, {}
        for measure in self._measures:
            if not measure.applies(subject):
                continue
            digest = subject.config.digest(measure.fields)
            name = f"{measure.name}_{digest}_{measure.key(subject)}".rstrip("_")
            try:
                record = folder.once(
                    f"{path}/{name}",
                    lambda measure=measure: _record(*measure.compute(subject)),
                )
            except UnavailableError as error:
                if isinstance(error.__cause__.__context__, KeyboardInterrupt):
                    raise KeyboardInterrupt from error
                system = registry.short(subject.expression)
                logging.warning("No %s of %s: %s", measure.name, system, error)
                continue
            metrics |= record["metrics"]
            details |= record["details"]
        return metrics, details


def _record(metrics: dict[str, Any], details: dict[str, Any]):
    known = {name: v for name, v in metrics.items() if v is not None}
    return {"metrics": known, "details": details}


def _report_failure(name, error):
    is_asked = logging.get_verbosity() >= logging.INFO
    logging.error("%s failed: %s", name, error, exc_info=is_asked)


def _listed(reasons):
    return " ".join(f"{name}: {reason}" for name, reason in reasons.items())


def _one_line(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
