"""Report of a bench: tables on the terminal, and a page with figures."""

import fnmatch
import textwrap
import typing
from collections.abc import Iterable
from collections.abc import Mapping

from tfp_refine.experiments import bench
from tfp_refine.experiments import conclusions
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import tables
from tfp_refine.experiments.systems import published
from tfp_refine.experiments.systems import registry

if typing.TYPE_CHECKING:
    import pandas as pd

_OF_REGRESSION = (
    "nll",
    "moment_matched_nll",
    "rmse",
    "crps",
    "coverage",
    "calibration_error",
    "elbo",
)
_OF_CLASSES = ("nll", "accuracy", "ece", "brier", "aurc", "elbo")
_PARTS_OF_UNCERTAINTY = (
    "aleatoric",
    "epistemic",
    "entropy",
    "mutual_information",
    "nll_few_draws",
)
_UNSEEN = {
    "By the confidence, the highest probability of a class:": (
        "unseen/*/auroc",
        "unseen/*/fpr95",
    ),
    "By the predictive entropy, whose means stand beside (nats):": (
        "unseen/*/auroc_entropy",
        "unseen/*/fpr95_entropy",
        "entropy",
        "unseen/*/entropy",
    ),
}
# Units of the strengths of shifts; corruptions have levels from 1 to 5.
_UNITS = {"rotation": " (degrees)", "flipped_pixels": " (fraction)"}
_SHIFT_METRICS = ("nll", "accuracy", "ece")
_BOUNDS = ("elbo", "elbo_standard_error", "elbo_init")
_COSTS = ("fit_seconds", "num_steps", "num_draws", "kilobytes", "memory")
_MAX_R_HAT = 1.01
_SCHEDULES = {
    "constant": "constant",
    "cosine": "falling to 0 as a cosine",
    "linear": "falling to 0 linearly",
    "step": "falling in steps",
}


def show(
    results: bench.Results, extra_sections: Iterable[page.Section] = ()
) -> None:
    """Prints tables, and writes `report.md`, `report.html` and figures.

    Args:
        results: `bench.Results`.
        extra_sections: Further sections, which are printed, too. The parts of
            one whose title the report has are added to that section; others
            follow the costs.

    Raises:
        OSError: If a file cannot be written.
    """
    extra_sections = list(extra_sections)
    main = [*_main_table(results), *_differences(results)]
    concluded = conclusions.sentences(results)
    print(f"\n{textwrap.fill(_data(results), 100)}\n")
    for part in [*main, *_unseen(results)]:
        if isinstance(part, tables.Table):
            print(part.to_text())
    for text in concluded:
        print(textwrap.fill(text, 100), end="\n\n")
    for name, reason in results.reasons.items():
        text = f"{results.titles[name]}: {reason}"
        print(textwrap.fill(text, 100, subsequent_indent="  "))
    page.write(
        results.path,
        f"{results.experiment}: {results.config.dataset}",
        _sections(results, [*main, *concluded], extra_sections),
        page.header(results.experiment, results.given),
    )
    print(f"\nFigures and all tables: {results.path / 'report.html'}\n")
    page.show(extra_sections)


def _sections(results, main, extra_sections):
    """Returns the sections of the page; those without parts are left out."""
    others = _other_metrics(results, extra_sections)
    note = [_DIAGNOSTICS] if "max_r_hat" in others else []
    parts = {
        "Comparison": _description(results),
        "Predictions": [
            *main,
            *_table(results, _PARTS_OF_UNCERTAINTY, _UNCERTAINTY),
        ],
        "Away from the training data": [*_unseen(results), *_shifts(results)],
        "Training": _table(results, _BOUNDS, _BOUND),
        "Fit diagnostics": _table(results, others, *note),
        "Costs": _table(results, _COSTS, _COST),
    }
    if page.can_plot():
        from tfp_refine.experiments import report_figures

        for title, drawn in report_figures.draw(results).items():
            parts[title] += drawn
    for section in extra_sections:
        parts.setdefault(section.title, []).extend(section.parts)
    parts |= {
        "Published figures": _published(results),
        "Systems": [_systems(results)],
        "Systems that are missing": _reasons(results),
    }
    return [page.Section(title, of) for title, of in parts.items() if of]


def _table(results, metrics, *texts, has_notes=False):
    """Returns texts and a table of the systems that have such metrics."""
    rows = results.rows
    is_shown = rows["metric"].map(
        lambda name: any(fnmatch.fnmatchcase(name, of) for of in metrics)
    )
    if not is_shown.any():
        return []
    table = tables.summary(rows[is_shown], metrics, results.titles)
    if not has_notes:
        table.notes = []
    return [*texts, table]


def _main_table(results):
    """Returns the table of test metrics, none if none was measured."""
    is_regression = results.kind == "regression"
    metrics = _OF_REGRESSION if is_regression else _OF_CLASSES
    found = _table(results, metrics, has_notes=True)
    for table in found:
        table.notes += mixing(results.rows, results.titles)
    return found


def mixing(rows: "pd.DataFrame", titles: Mapping[str, str]) -> list[str]:
    """Returns a note for each system whose chains have not mixed."""
    worst = rows[rows["metric"] == "max_r_hat"].groupby("system", sort=False)
    return [
        f"{titles[name]}: the chains have not mixed (R-hat {r_hat:.2f}, where "
        f"at most {_MAX_R_HAT} should be), so these are not samples of the "
        "posterior. Raise --nuts_warmup and --nuts_samples."
        for name, r_hat in worst["value"].max().items()
        if not r_hat <= _MAX_R_HAT  # NaN too
    ]


def _differences(results):
    """Returns paired differences to the best, none if there are none."""
    of_nll = results.rows[results.rows["metric"] == "nll"]
    if min(of_nll["seed"].nunique(), of_nll["system"].nunique()) < 2:
        return []
    return [tables.paired(of_nll, "nll", systems=results.titles)]


def _data(results):
    """Returns the name, sizes and repetitions of the data."""
    done, seeds = results.rows["seed"].nunique(), results.config.seeds
    sizes = [
        f"{results.facts[f'num_{part}']} {part}"
        for part in ("train", "validation", "test")
        if results.facts[f"num_{part}"]
    ]
    text = f"{results.config.dataset} ({results.kind}): {', '.join(sizes)} "
    text += f"examples; {done} of {seeds} seed{'s' * (seeds > 1)}"
    if results.config.measure_on == "validation":
        text += ". The test examples here were taken from the training set"
    return text


def _description(results):
    config, facts = results.config, results.facts
    hidden = ""
    if config.model in ("mlp", "gru"):
        units = config_lib.to_text(config.hidden).replace(",", ", ")
        hidden = f" with {units} hidden units"
    noise = ""
    if results.kind == "regression":
        noise = f" Its noise is Gaussian, {config.likelihood}."
    scale = {"fan_in": "variance 1 / fan-in", "he": "variance 2 / fan-in"}
    return [
        f"Data: {_data(results)}.",
        f"Network: {config.model}{hidden}, {facts['num_weights']} weights "
        f"where they have no posteriors.{noise} It is trained for "
        f"{config.train_steps} steps of {config.batch_size} examples by Adam, "
        f"with a learning rate of {config.learning_rate:g}, "
        f"{_SCHEDULES[config.learning_rate_schedule]}. The prior of weights is "
        "Gaussian with "
        f"{scale.get(config.prior_scale, f'scale {config.prior_scale}')} where "
        "a system does not infer it. Ensembles train several networks, and a "
        "system that starts from a trained one takes more steps: see the "
        f"costs. Predictions average {config.num_samples} draws, or the "
        "members or samples of a system that has a number of its own.",
        _REGRESSION if results.kind == "regression" else _CLASSES,
        "Tables hold means and standard deviations over seeds. Bold is the "
        "best, where its paired difference to the second best exceeds the "
        "standard error of that difference.",
    ]


def _unseen(results):
    """Returns tables of how well unseen inputs are told from test inputs."""
    parts = []
    for text, metrics in _UNSEEN.items():
        if _table(results, metrics[:1]):
            parts += _table(results, metrics, text)
    return [_UNSEEN_NOTE, *parts] if parts else []


def _shifts(results):
    """Returns a table for each shift and metric."""
    parts = []
    for shift, strengths in tables.shifts(results.rows).items():
        for metric in _SHIFT_METRICS:
            head = tables.metric_of(metric).head
            found = _table(
                results,
                [f"shift/{shift}/{s}/{metric}" for s in strengths],
                f"{head[0].upper()}{head[1:]} of test data, by the strength of "
                f"{shift.replace('_', ' ')}{_UNITS.get(shift, '')}:",
            )
            for table in found[1:]:
                table.head = ["", *strengths]
            parts += found
    return parts


def _other_metrics(results, extra_sections):
    """Returns the metrics that no other table shows."""
    heads = {
        head
        for section in extra_sections
        for part in section.parts
        if isinstance(part, tables.Table)
        for head in part.head
    }
    shown = {
        *(_OF_REGRESSION + _OF_CLASSES + _PARTS_OF_UNCERTAINTY),
        *(_BOUNDS + _COSTS),
    }
    return [
        name
        for name in results.rows["metric"].unique()
        if name not in shown
        and "/" not in name
        and tables.metric_of(name).head not in heads
    ]


def _published(results):
    means = results.rows.groupby(["system", "metric"])["value"].mean()
    rows = []
    for system, metric, value, source in published.find(
        results.config, results.kind
    ):
        if (system, metric) in means.index:
            shown = tables.metric_of(metric)
            rows.append(
                [
                    f"{results.titles[system]}: {shown.title}",
                    f"{means[system, metric]:.{shown.digits}f}",
                    f"{value:g}",
                    source,
                ]
            )
    table = tables.Table(["", "here", "published", "by"], rows)
    return [_PUBLISHED, table] if rows else []


def _systems(results):
    """Returns a table of names, and of where systems come from."""
    rows = []
    for name in results.rows["system"].unique():
        expression = registry.parse(name, type(results.config))
        parts = []
        while expression is not None:
            parts.append(registry.SYSTEMS[expression.name])
            expression = expression.argument
        where = dict.fromkeys(part.where for part in parts)
        papers = dict.fromkeys(part.paper for part in parts)
        rows.append(
            [results.titles[name], name, ", ".join(where), "; ".join(papers)]
        )
    head = ["", "in --systems", "made by", "papers"]
    return tables.Table(head, rows)


def _reasons(results):
    rows = [[results.titles[n], text] for n, text in results.reasons.items()]
    return [tables.Table(["", "why"], rows)] if rows else []


_CLASSES = (
    "NLL (negative log likelihood, nats per example), ECE (expected "
    "calibration error), Brier score and AURC (area under the risk-coverage "
    "curve): low is good. The ELBO bounds the log evidence of the training "
    "data from below (nats); bounds compare only between systems that have one "
    "prior, and posteriors of the same weights."
)
_REGRESSION = (
    "NLL (negative log likelihood, nats per example; also that of one Gaussian "
    "with the moments of all draws), RMSE and CRPS (continuous ranked "
    "probability score): low is good, in the units of the targets. Coverage is "
    "the part of the targets in central intervals of 95%, and the calibration "
    "error averages over such intervals. The ELBO bounds the log evidence of "
    "the training data from below (nats); bounds compare only between systems "
    "that have one prior, and posteriors of the same weights."
)
_UNCERTAINTY = (
    "Predictive uncertainty: that of the data themselves, and the disagreement "
    "of draws."
)
_UNSEEN_NOTE = (
    "How well test inputs and unseen inputs are told apart: the area under the "
    "ROC curve, and the part of the unseen inputs that are taken for test "
    "inputs where 95% of the latter are."
)
_BOUND = (
    "Bounds on the log evidence of the training data, nats. The standard error "
    "of a refined posterior is over its members."
)
_DIAGNOSTICS = (
    "Samples of NUTS are those of the posterior only where R-hat, the worst of "
    f"all weights, is at most {_MAX_R_HAT}."
)
_COST = (
    "Seconds and gradient steps include those of the system that one starts "
    "from; steps of NUTS and of fits without gradients do not count. Seconds "
    "are missing where a fit was stopped and continued. Memory is how far that "
    "of the process rose during the fit: an underestimate where earlier memory "
    "was used again. The first system pays for the start of TensorFlow."
)
_PUBLISHED = (
    "Papers differ from this in splits, training times and hyperparameters: "
    "their figures are a guide, not a target."
)
