"""The bench: systems, fitted to a data set over several seeds, and measured."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from absl import logging

from tfp_refine.experiments.data import load
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.harness import tables
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
        compute: Function of a `Subject` that returns two dicts: metrics, floats
            by their names; and details, what figures show, for JSON.
        fields: Names of the fields that decide it, besides those of the fit.
        applies: Function of a `Subject` that tells whether it has a meaning.
        key: Function of a `Subject` that returns a text, part of a file's name,
            for what else decides it.
    """

    name: str
    compute: Callable
    fields: tuple[str, ...] = ()
    applies: Callable = lambda subject: True
    key: Callable = lambda subject: ""


class UnavailableError(Exception):
    """Another system failed, with which a measurement compares."""


class Subject:
    """A fitted system, as measures see it.

    Attributes:
        bench: `Bench`.
        repetition: `repetition.Repetition`.
        expression: `registry.Expression`.
        config: `fields.Bench`, with the system's own options.
        data: `dataset.Dataset`.
        fitted: `fitted.Fitted`; computed when it is first asked for.
        costs: Dict of floats or `None`.
    """

    def __init__(self, bench, of, expression):
        self.bench, self.repetition, self.expression = bench, of, expression
        self.data = of.data
        self.fit = repetition.Fit(of, expression)
        self.config = self.fit.config
        self._test_draws = None

    @property
    def fitted(self):
        return self.repetition.fitted(self.expression)[0]

    @property
    def costs(self):
        return self.repetition.fitted(self.expression)[1]

    def draws(self, x=None):
        """Returns draws of outputs, `[S, N, C]`; of test inputs by default.

        Raises:
            FloatingPointError: If they are not finite.
        """
        if x is not None:
            return folder_lib.finite(self.fitted.draws(x), "predictions")
        if self._test_draws is None:
            self._test_draws = self.draws(self.data.test[0])
        return self._test_draws


class Results:
    """Results of an experiment.

    Attributes:
        experiment: Name of the experiment.
        kind: Kind of the data, one of `fields.KINDS`.
        rows: `pandas.DataFrame` with the columns dataset, system, seed, metric
            and value.
        details: Dict from the short name of a system to a dict from a seed to
            a dict of what figures show.
        titles: Dict from the short name of a system to its title.
        given: The configuration as it was given.
        config: The same, filled.
        path: `pathlib.Path` of the folder.
        reasons: Dict from a system that was not fitted to why.
        facts: Dict of numbers: of `"num_train"`, `"num_validation"` and
            `"num_test"` examples; and `"num_weights"`, of the network without
            posteriors.
    """

    def __init__(self, experiment, kind, given, config, path):
        self.experiment, self.kind = experiment, kind
        self.given, self.config = given, config
        self.path = pathlib.Path(path)
        self.rows = tables.frame([])
        self.details, self.titles, self.reasons = {}, {}, {}
        self.facts = {}


class Bench:
    """All repetitions and systems; everything is checked before any is run.

    Args:
        experiment: Name of the experiment.
        config: `fields.Bench`.
        measures: List of `Measure`.
        observe: As for `repetition.Repetition`.
        kinds: Kinds of data that the experiment takes.
        load_data: Function of a configuration and the number of a repetition
            that returns a `dataset.Dataset`.

    Attributes:
        config: The configuration, filled.
        data: `dataset.Dataset` of the first repetition.
        kind: Kind of the data.

    Raises:
        ValueError: If fields are invalid, or no system can be applied.
        FileNotFoundError: If data are missing.
    """

    def __init__(
        self,
        experiment,
        config,
        measures,
        observe=None,
        kinds=fields.KINDS,
        load_data=load.load,
    ):
        self.experiment, self._measures = experiment, measures
        self._given, self._observe = config, observe
        self._load = load_data
        if config.distributed:
            variational.connect()
        self.kind = load.kind_of(config)
        if self.kind not in kinds:
            raise ValueError(
                f"--dataset must be of the kind {' or '.join(kinds)}; python "
                "-m tfp_refine.experiments.compare takes any. Received: "
                f"--dataset={config.dataset}, which is {self.kind}"
            )
        config = config.with_defaults(
            {
                "output_dir": f"results/{experiment}/{config.dataset}",
                **config.before_data(self.kind),
            }
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
        self._expressions = self._parse()
        first = repetition.Repetition(self.config, self.data)
        self._num_weights = first.num_weights
        self._reasons = {}
        for name, expression in self._expressions.items():
            reason = first.why_not(expression)
            if reason is not None:
                self._reasons[name] = reason
        if len(self._reasons) == len(self._expressions):
            raise ValueError(
                "None of --systems can be applied. "
                + " ".join(f"{n}: {r}" for n, r in self._reasons.items())
            )

    def run(self, report=None):
        """Fits and measures what is missing.

        Args:
            report: Function of `Results`, called after each repetition.

        Returns:
            results: `Results`.

        Raises:
            ValueError: If every system failed.
        """
        config = self.config
        with folder_lib.Folder(
            config.output_dir, self.experiment, config, self._decides()
        ) as folder:
            results = Results(
                self.experiment, self.kind, self._given, config, folder.path
            )
            results.facts = {
                "num_train": len(self.data.train[1]),
                "num_validation": len(self.data.validation[1]),
                "num_test": len(self.data.test[1]),
                "num_weights": self._num_weights,
            }
            results.titles = {
                name: registry.title(expression)
                for name, expression in self._expressions.items()
            }
            failures, rows = {}, []
            for number in range(config.seeds):
                data = self._load(config, number) if number else self.data
                of = repetition.Repetition(
                    config, data, number, folder, self._observe
                )
                for name, expression in self._expressions.items():
                    if name in self._reasons:
                        continue
                    subject = Subject(self, of, expression)
                    try:
                        metrics, details = self._measure(folder, subject)
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
                        {
                            "dataset": config.dataset,
                            "system": name,
                            "seed": number,
                            "metric": metric,
                            "value": value,
                        }
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
            raise ValueError(
                "All of --systems failed. "
                + " ".join(f"{n}: {reason}" for n, reason in failures.items())
            )
        return results

    def expressions(self):
        """Returns a dict from short names to expressions of what is fitted."""
        return {
            name: expression
            for name, expression in self._expressions.items()
            if name not in self._reasons
        }

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

    def _decides(self):
        return {
            "data": self.data.digest,
            "weights": self._weights,
            **{
                name: self.config.to_json()[name]
                for name, spec in config_lib.specs(type(self.config)).items()
                if spec.decides and spec.group in _DECISIVE_GROUPS
            },
        }

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


def _one_line(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
