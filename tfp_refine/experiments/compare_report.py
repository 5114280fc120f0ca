"""The report of the comparison: what a reader sees."""

import statistics
from typing import NamedTuple

from tfp_refine.experiments import compare_figures
from tfp_refine.experiments import compare_systems
from tfp_refine.experiments import published
from tfp_refine.experiments import report_page
from tfp_refine.experiments import report_table

_Column = report_table.Column
_METRICS = {
    "nll": _Column("NLL", 3, "low"),
    "moment_matched_nll": _Column("NLL, one Gaussian", 3, "low"),
    "accuracy": _Column("accuracy", 4, "high"),
    "ece": _Column("ECE", 4, "low"),
    "brier": _Column("Brier", 4, "low"),
    "aurc": _Column("AURC", 4, "low"),
    "rmse": _Column("RMSE", 3, "low"),
    "crps": _Column("CRPS", 3, "low"),
    "coverage": _Column("coverage of 95%", 3, 0.95),
    "calibration_error": _Column("calibration error", 4, "low"),
    "aleatoric": _Column("noise (aleatoric)", 3),
    "epistemic": _Column("ignorance (epistemic)", 3),
    "entropy": _Column("entropy", 3),
    "mutual_information": _Column("mutual information", 3),
}
_COSTS = {
    "fit_seconds": _Column("seconds", 1),
    "num_steps": _Column("gradient steps", 0, has_spread=False),
    "num_draws": _Column("draws", 0, has_spread=False),
    "kilobytes": _Column("kept, kB", 1, has_spread=False),
    "memory": _Column("memory, MiB", 0),
}
_TOLD = {
    "temperature": _Column("temperature", 3),
    "prior_precision": _Column("prior precision", 3),
    "elbo": _Column("ELBO", 1),
    "max_r_hat": _Column("R-hat", 3),
    "min_effective_sample_size": _Column("effective samples", 0),
    "num_divergences": _Column("divergences", 1),
}
_MAX_R_HAT = 1.01
_SHIFT_METRICS = {"nll": ("NLL", "low"), "ece": ("ECE", "low")}


class Setting(NamedTuple):
    """What all systems have in common.

    Attributes:
        flags: Dict of flags.
        seeds: Number of repetitions.
        num_weights: Weights of the network without posteriors.
        num_train: Number of training examples.
        num_test: Number of test examples.
    """

    flags: dict
    seeds: int
    num_weights: int
    num_train: int
    num_test: int


class Report:
    """Tables and figures of results.

    Args:
        results: Dict from system to a list of its results, one or more.
        reasons: Dict from system that cannot be applied to why.
        failures: Dict from system to a dict from a repetition to its error.
        setting: `Setting`.
    """

    def __init__(self, results, reasons, failures, setting):
        titles = {n: s.title for n, s in compare_systems.SYSTEMS.items()}
        self._results = {titles[n]: runs for n, runs in results.items()}
        self._names = {titles[n]: n for n in results}
        self._reasons = {
            titles[n]: f"not applied. {reason}" for n, reason in reasons.items()
        }
        self._failures = {titles[n]: of for n, of in failures.items()}
        for title, of_title in self._failures.items():
            if title not in self._results:
                reason = next(iter(of_title.values()))
                self._reasons[title] = f"failed. {reason}"
        self._setting = setting

    def summary(self):
        """Returns the table of metrics as Markdown."""
        return self._metrics().to_markdown()

    def write(self, directory, can_plot):
        """Writes `report.md`, `report.html` and figures.

        Args:
            directory: Folder.
            can_plot: Whether figures are drawn.
        """
        figures = (
            compare_figures.draw(self._results, self._setting.seeds)
            if can_plot
            else {}
        )

        def section(title, *parts):
            drawn = figures.get(title, [])
            return report_page.Section(title, [*parts, *drawn])

        sections = [
            report_page.Section("What is compared", self._description()),
            section("Test data", self._metrics()),
            section("Costs", _COST_NOTE, self._table(_COSTS)),
            *self._told(),
        ]
        away = [*self._unseen(), *self._shifted()]
        if away:
            sections.append(section("Away from the training data", *away))
        if "Training" in figures:
            sections.append(section("Training"))
        beside = self._published()
        if beside is not None:
            sections.append(section("Published figures", _PAPER_NOTE, beside))
        sections.append(
            report_page.Section("Names", [_NAMES_NOTE, self._systems()])
        )
        title = f"Uncertainty on {self._setting.flags['dataset']}"
        report_page.write(directory, "report", title, sections)

    def _description(self):
        setting, flags = self._setting, self._setting.flags
        layers = ""
        if flags["model"] == "mlp":
            layers = f" with {', '.join(flags['hidden'])} hidden units"
        cm = ""
        if "cm" in self._names.values():
            cm = " (of CM, given the mean, it has the variance 1 / fan-in)"
        repetitions = (
            "one repetition: how much chance matters is not known"
            if setting.seeds == 1
            else f"{setting.seeds} repetitions"
        )
        return [
            f"Data: {flags['dataset']} ({flags['kind']}), {setting.num_train} "
            f"training and {setting.num_test} test examples; {repetitions}.",
            f"Network: {flags['model']}{layers}, {setting.num_weights} weights "
            "where they are not distributions. Each network is trained for "
            f"{flags['train_steps']} steps of {flags['batch_size']} examples "
            "by Adam, its learning rate falling from "
            f"{flags['learning_rate']} to 0; the prior of weights is "
            f"N(0, {flags['prior_scale']}^2) where a system does not infer "
            f"it{cm}. Ensembles train several networks, and what starts from "
            "a trained one takes more steps; "
            "both are in the table of costs. Predictions are averages of "
            f"{flags['num_samples']} draws, or of the members or samples that "
            "a system has.",
            "NLL (negative log likelihood), ECE (expected calibration error), "
            "Brier, AURC (area under the risk-coverage curve), RMSE and CRPS "
            "(continuous ranked probability score): low is good. The best mean "
            "is bold.",
        ]

    def _metrics(self):
        """Returns the table of metrics, with what is to be known of it."""
        table = self._table(_METRICS, self._reasons)
        for title, of_title in self._failures.items():
            if title in self._results:
                table.notes.extend(
                    f"{title}: failed in repetition {number}. {error}"
                    for number, error in of_title.items()
                )
        for title, runs in self._results.items():
            worst = max(run["about"].get("max_r_hat", 1.0) for run in runs)
            if worst > _MAX_R_HAT:
                table.notes.append(
                    f"{title}: the chains have not mixed (R-hat {worst:.2f}, "
                    f"where at most {_MAX_R_HAT} should be), so these are not "
                    "samples of the posterior."
                )
        return table

    def _table(self, columns, reasons=None):
        return self._of(self._results, columns, reasons)

    def _of(self, results, columns, reasons=None):
        return report_table.table(
            results, columns, reasons, self._setting.seeds
        )

    def _told(self):
        """Returns a section of what fits say of themselves, a list."""
        about = {
            title: [run["about"] for run in runs]
            for title, runs in self._results.items()
            if runs[0]["about"]
        }
        if not about:
            return []
        table = self._of(about, _TOLD)
        return [report_page.Section("Fits", [_TOLD_NOTE, table])]

    def _unseen(self):
        """Returns the table of what tells other data from test data."""
        runs = {
            title: [
                {
                    f"{metric} {name}": scores[metric]
                    for name, scores in run.get("unseen", {}).items()
                    for metric in ("auroc", "fpr95")
                }
                for run in of_title
            ]
            for title, of_title in self._results.items()
        }
        names = dict.fromkeys(k for run in _all(runs) for k in run)
        if not names:
            return []
        columns = {
            name: _Column(
                name.replace("auroc", "AUROC").replace("fpr95", "FPR95"),
                3,
                "high" if name.startswith("auroc") else "low",
            )
            for name in names
        }
        return [_UNSEEN_NOTE, self._of(runs, columns)]

    def _shifted(self):
        """Returns tables of shifted data, one for each shift and metric."""
        parts = []
        strengths = {}
        for run in _all(self._results):
            for entry in run.get("shifts", []):
                of_shift = strengths.setdefault(entry["shift"], {})
                of_shift[f"{entry['strength']:g}"] = None
        for shift, known in strengths.items():
            for metric, (head, better) in _SHIFT_METRICS.items():
                runs = {
                    title: [
                        {
                            f"{entry['strength']:g}": entry[metric]
                            for entry in run["shifts"]
                            if entry["shift"] == shift
                        }
                        for run in of_title
                    ]
                    for title, of_title in self._results.items()
                }
                columns = {name: _Column(name, 3, better) for name in known}
                parts += [
                    f"{head} of test data, changed by {shift}:",
                    self._of(runs, columns),
                ]
        return parts

    def _published(self):
        """Returns the table of what papers print, or `None`."""
        flags = self._setting.flags
        found = published.find(
            flags["dataset"],
            flags["kind"],
            flags["model"],
            tuple(map(int, flags["hidden"])),
            flags["batch_norm"],
        )
        titles = {name: title for title, name in self._names.items()}
        rows = {}
        for system, metric, value, source in found:
            if system not in titles:
                continue
            runs = self._results[titles[system]]
            ours = statistics.fmean(run[metric] for run in runs)
            rows[f"{titles[system]}: {_METRICS[metric].title}"] = [
                report_table.Cell(f"{ours:.3f}", False),
                report_table.Cell(f"{value:.3f}", False),
                report_table.Cell(source, False),
            ]
        if not rows:
            return None
        return report_table.Table(["", "here", "published", "by"], rows, [])

    def _systems(self):
        rows = {
            title: [
                report_table.Cell(compare_systems.SYSTEMS[name].where, False),
                report_table.Cell(compare_systems.SYSTEMS[name].paper, False),
            ]
            for title, name in self._names.items()
        }
        return report_table.Table(["", "made by", "paper"], rows, [])


_TOLD_NOTE = (
    "What fits say of themselves. Samples of NUTS are not those of the "
    "posterior where R-hat, at worst of all weights, is above 1.01."
)
_COST_NOTE = (
    "Seconds and gradient steps include those of what a system starts from "
    "(steps of NUTS and of fits without gradients do not count). Memory is "
    "how far that of the process rose while it was fitted; it is an "
    "underestimate where earlier memory was used again. Seconds are missing "
    "where a fit was stopped and continued, and the memory is that of the last "
    "start. The first system pays for the start of TensorFlow."
)
_PAPER_NOTE = (
    "Papers differ from this in splits, training times and hyper-parameters; "
    "their figures tell what to expect, not what to reach."
)
_UNSEEN_NOTE = (
    "How well the confidence tells test data from others: the area under the "
    "ROC curve, and the part of the others that are taken for test data where "
    "95% of these are."
)
_NAMES_NOTE = "What the systems are, and where they come from."


def _all(results):
    return [run for runs in results.values() for run in runs]
