"""Results as rows, and tables of them: as text, Markdown and HTML."""

import dataclasses
import fnmatch
import html
import re
import textwrap
import typing
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np

if typing.TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("dataset", "system", "seed", "metric", "value")
_KEYS = list(COLUMNS[:-1])
_NUMBER = re.compile(r"[-+]?(\d|inf|nan|$)")
_LABEL, _HEAD = 40, 12  # Characters in a line of labels, of titles.


class Metric(NamedTuple):
    """Display of a metric.

    Attributes:
        title: Title of its column.
        digits: Digits after the decimal point.
        better: "low", "high", the value that is best, or `None` where no value
            is better than another.
        unit: Unit, if it has one.
    """

    title: str
    digits: int
    better: typing.Literal["low", "high"] | float | None = None
    unit: str = ""

    def loss(self, values):
        """Returns numbers that are low where values are good."""
        if isinstance(self.better, float):
            return abs(values - self.better)
        return -values if self.better == "high" else values

    @property
    def head(self):
        """Title and unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


METRICS: dict[str, Metric] = {
    # Predictions.
    "nll": Metric("NLL", 4, "low"),
    "nll_few_draws": Metric("NLL, a draw of each member", 4, "low"),
    "moment_matched_nll": Metric("NLL, one Gaussian", 4, "low"),
    "accuracy": Metric("accuracy", 4, "high"),
    "error": Metric("error", 4, "low"),
    "ece": Metric("ECE", 4, "low"),
    "brier": Metric("Brier", 4, "low"),
    "aurc": Metric("AURC", 4, "low"),
    "rmse": Metric("RMSE", 3, "low"),
    "crps": Metric("CRPS", 3, "low"),
    "coverage": Metric("coverage of 95%", 3, 0.95),
    "calibration_error": Metric("calibration error", 4, "low"),
    "aleatoric": Metric("noise (aleatoric)", 3),
    "epistemic": Metric("model uncertainty (epistemic)", 3),
    "entropy": Metric("entropy", 4),
    "mutual_information": Metric("mutual information", 4),
    "train_accuracy": Metric("training accuracy", 3),
    "test_accuracy": Metric("test accuracy", 3),
    "rmse_before": Metric("RMSE within the data, before training", 3, "low"),
    "rmse_at_data": Metric("RMSE within the data", 3, "low"),
    "scale_at_data": Metric("mean scale within the data", 3),
    "scale_far": Metric("scale at the ends", 3),
    # Data that a system was not trained on.
    "auroc": Metric("AUROC", 4, "high"),
    "fpr95": Metric("FPR95", 4, "low"),
    "auroc_entropy": Metric("AUROC (entropy)", 4, "high"),
    "fpr95_entropy": Metric("FPR95 (entropy)", 4, "low"),
    # Posteriors and their bounds.
    "mmd": Metric("MMD to NUTS", 4, "low"),
    "elbo": Metric("ELBO", 1),
    "elbo_standard_error": Metric("ELBO, standard error", 1),
    "elbo_init": Metric("ELBO before refinement", 1),
    "elbo_init_standard_error": Metric("before, standard error", 1),
    "elbo_aux": Metric("ELBO of auxiliary variables", 4),
    "elbo_aux_standard_error": Metric("its standard error", 4),
    "elbo_ref": Metric("ELBO of the mixture", 4),
    "log_evidence": Metric("log evidence", 4),
    "log_marginal_likelihood": Metric("log marginal likelihood", 1),
    "kl": Metric("KL", 1),
    "temperature": Metric("temperature", 3),
    "prior_precision": Metric("prior precision", 3),
    "member_kl_scale": Metric("factor on the KL, geometric mean", 3),
    "member_short_training": Metric("weight of a short training", 3),
    "member_noise_scale": Metric("standardized noise, at the start", 4),
    "prior_scale": Metric("scale of the prior", 3),
    "train_steps": Metric("steps of training", 0),
    "noise_factor": Metric("factor on the noise", 3),
    "max_r_hat": Metric("R-hat", 3, "low"),
    "min_effective_sample_size": Metric("effective samples", 0),
    "num_divergences": Metric("divergences", 1),
    "mean_leapfrogs": Metric("gradients per transition", 0),
    # Integrals of a sigmoid and of a softmax.
    "probit": Metric("probit", 4, "low"),
    "mean_field": Metric("mean field", 4, "low"),
    "monte_carlo": Metric("Monte Carlo", 4, "low"),
    # Costs.
    "seconds": Metric("seconds", 1),
    "fit_seconds": Metric("seconds to fit", 1),
    "training_seconds": Metric("seconds to train", 1),
    "initialization_seconds": Metric("seconds to initialize", 1),
    "num_steps": Metric("gradient steps", 0),
    "num_draws": Metric("draws", 0),
    "num_weights": Metric("weights", 0),
    "num_params": Metric("parameters of flows", 0),
    "pruned_units": Metric("units without use", 0),
    "kilobytes": Metric("kept", 1, unit="kB"),
    "memory": Metric("memory", 0, unit="MiB"),
}


def metric_of(name: str) -> Metric:
    """Returns how a metric is shown, by the last part of its path.

    `"unseen/fashion_mnist/auroc"` is shown as "AUROC, fashion_mnist".
    """
    *path, last = name.split("/")
    known = METRICS.get(last, Metric(last.replace("_", " "), 4))
    if not path:
        return known
    if path[0] in ("unseen", "shift"):
        path = path[1:]
    elif path[0] == "curve":
        path = ["step", *path[1:]]
    return known._replace(title=f"{known.title}, {' '.join(path)}")


def shifts(rows: "pd.DataFrame") -> dict[str, list[str]]:
    """Returns the strengths, rising, of each shift that was measured."""
    found: dict[str, set[str]] = {}
    for metric in rows["metric"].unique():
        kind, *path = metric.split("/")
        if kind == "shift":
            found.setdefault(path[0], set()).add(path[1])
    return {name: sorted(of, key=float) for name, of in found.items()}


class Cell(NamedTuple):
    """An entry of a table.

    Attributes:
        text: Text of the cell.
        is_best: Whether it is highlighted.
    """

    text: str
    is_best: bool = False


@dataclasses.dataclass
class Table:
    """A table.

    Args:
        head: Titles of the columns.
        rows: List of rows, each a list of texts, numbers or `Cell`s; the first
            is the row's label.
        notes: Sentences below the table.

    Attributes:
        head: List of texts.
        rows: List of lists of `Cell`s.
        notes: List of texts.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()

    def __post_init__(self):
        self.head, self.notes = list(self.head), list(self.notes)
        self.rows = [
            [c if isinstance(c, Cell) else Cell(str(c)) for c in row]
            for row in self.rows
        ]
        if any(len(row) != len(self.head) for row in self.rows):
            raise ValueError(
                "`rows` must be as long as `head`. Received: lengths "
                f"{[len(row) for row in self.rows]}, head={self.head!r}"
            )

    def to_text(self, width: int = 100) -> str:
        """Returns the table for a terminal; `*` marks the best.

        Args:
            width: Columns that do not fit it follow in a block below.
        """
        blocks, left = [], 0
        columns = zip(self.head, *self.rows, strict=True)
        for index, (head, *cells) in enumerate(columns):
            longest = max([_HEAD, *(len(cell.text) for cell in cells)])
            wrapped = [
                textwrap.wrap(
                    text,
                    longest if index else _LABEL,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
                or [""]
                for text in (head, *(cell.text for cell in cells))
            ]
            if any(cell.is_best for cell in cells):
                for lines, cell in zip(wrapped[1:], cells, strict=True):
                    lines[-1] += "*" if cell.is_best else " "
            wide = max(len(line) for lines in wrapped for line in lines)
            align = str.ljust if self._is_text(index) else str.rjust
            column = [[align(t, wide) for t in lines] for lines in wrapped]
            if not index:
                labels = column
            elif not blocks or wide + 2 > left:
                blocks.append([labels, column])
                left = width - len(labels[0][0]) - wide - 2
            else:
                blocks[-1].append(column)
                left -= wide + 2
        lines = []
        for block in blocks or [[labels]]:
            for index, entries in enumerate(zip(*block, strict=True)):
                height = max(map(len, entries))
                padded = []
                for texts in entries:
                    blank = [" " * len(texts[0])] * (height - len(texts))
                    padded.append(texts + blank if index else blank + texts)
                lines += map("  ".join, zip(*padded, strict=True))
                if not index:
                    lines.append("-" * len(lines[-1]))
            lines.append("")
        for note in self.notes:
            lines += [*textwrap.wrap(note, width), ""]
        return "\n".join(line.rstrip() for line in lines)

    def _is_text(self, index):
        """True if a column holds anything but numbers."""
        texts = (row[index].text for row in self.rows)
        return not index or not all(map(_NUMBER.match, texts))

    def to_markdown(self) -> str:
        """Returns the table as Markdown; the best is bold."""
        sides = [
            "---" if self._is_text(index) else "--:"
            for index in range(len(self.head))
        ]
        lines = [self.head, sides]
        lines += [
            [f"**{c.text}**" if c.is_best else c.text for c in row]
            for row in self.rows
        ]
        escaped = (
            [text.replace("|", "\\|") for text in line] for line in lines
        )
        table = "\n".join(f"| {' | '.join(line)} |" for line in escaped)
        return "\n\n".join([table, *self.notes]) + "\n"

    def to_html(self) -> str:
        """Returns the table as HTML: a `<table>`, and a `<p>` for each note."""
        kinds = [
            ' class="text"' if self._is_text(index) else ""
            for index in range(len(self.head))
        ]
        head = "".join(
            f'<th scope="col"{kind}>{html_words(text)}</th>'
            for text, kind in zip(self.head, kinds, strict=True)
        )
        rows = []
        for label, *cells in self.rows:
            rows.append(f'<tr><th scope="row">{html_words(label.text)}</th>')
            for (text, is_best), kind in zip(cells, kinds[1:], strict=True):
                text = html_words(text) if kind else html.escape(text)
                text = f"<b>{text}</b>" if is_best else text
                rows[-1] += f"<td{kind}>{text}</td>"
        body = "".join(f"{row}</tr>\n" for row in rows)
        notes = "".join(f"<p>{html_words(n)}</p>\n" for n in self.notes)
        return (
            f'<div class="table">\n<table>\n<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}</tbody>\n</table>\n</div>\n{notes}"
        )


def html_words(text: str) -> str:
    """Returns text as HTML whose lines break at spaces alone."""
    return " ".join(
        html.escape(word)
        if word.strip(".,:;()").isalnum()
        else f"<span>{html.escape(word)}</span>"
        for word in text.split()
    )


def frame(rows: "pd.DataFrame | Iterable[Any]") -> "pd.DataFrame":
    """Returns rows as a data frame.

    Args:
        rows: Data frame, dicts or tuples with the entries `COLUMNS`.

    Returns:
        frame: `pandas.DataFrame` with just these columns.

    Raises:
        ValueError: If an entry is missing or of a wrong kind, or if a dataset,
            system, seed and metric have two values.
    """
    import pandas as pd

    if not isinstance(rows, pd.DataFrame):
        rows = list(rows)
        is_named = bool(rows) and isinstance(rows[0], Mapping)
        rows = pd.DataFrame(rows, columns=None if is_named else COLUMNS)
    missing = [name for name in COLUMNS if name not in rows]
    if missing:
        raise ValueError(
            f"`rows` must have {', '.join(COLUMNS)}. Received: no "
            f"{', '.join(missing)}"
        )
    made = rows[list(COLUMNS)].reset_index(drop=True)
    try:
        if any(made["seed"] % 1):
            raise ValueError(f"seed={made['seed'].tolist()}")
        made = made.astype({"seed": "int64", "value": "float64"})
    except (TypeError, ValueError) as error:
        raise ValueError(
            "`rows` must have whole numbers as seeds and numbers as values. "
            f"Received: {error}"
        ) from error
    twice = made[made.duplicated(_KEYS)]
    if len(twice):
        raise ValueError(
            "`rows` must have one value per dataset, system, seed and metric. "
            f"Received: two for {tuple(twice.iloc[0][_KEYS])}"
        )
    return made


def summary(
    frame: "pd.DataFrame",
    metrics: Sequence[str],
    systems: Sequence[str] | Mapping[str, str] | None = None,
) -> Table:
    """Returns means and standard deviations over seeds: systems x metrics.

    The best mean is highlighted where its paired difference to the second best
    exceeds the standard error of that difference. Systems that lack seeds are
    not compared. Where a metric is best at some value, its distance to that
    value is compared.

    Args:
        frame: Result of `frame`.
        metrics: Names of metrics, or patterns such as `"unseen/*/auroc"`.
            Those without results are left out.
        systems: Names of the systems to show, or a dict from these to titles;
            defaults to all.

    Returns:
        table: `Table`. If there are several data sets, they start the labels.
    """
    frame, titles = _shown(frame, systems)
    known = frame["metric"].unique()
    names = dict.fromkeys(
        name
        for pattern in metrics
        for name in known
        if name == pattern or fnmatch.fnmatchcase(name, pattern)
    )
    rows, counts, has_best = [], set(), False
    for dataset, part in frame.groupby("dataset", sort=False):
        values = {name: _values(part, name, titles) for name in names}
        best = {name: _best(of, metric_of(name)) for name, of in values.items()}
        num_seeds = part["seed"].nunique()
        counts.add(num_seeds)
        has_best |= any(system is not None for system in best.values())
        for system in _present(part, titles):
            seeds = part.loc[part["system"] == system, "seed"].unique()
            label = _label(frame, dataset, titles[system])
            if len(seeds) < num_seeds:
                label += f" ({len(seeds)} of {num_seeds} seeds)"
            cells = [
                Cell(
                    _mean(values[name][system][seeds], metric_of(name).digits),
                    system == best[name],
                )
                for name in names
            ]
            rows.append([label, *cells])
    notes = []
    if counts == {1}:
        notes.append("One seed: differences may be due to chance.")
    elif counts:
        seeds = " or ".join(map(str, sorted(counts)))
        best_note = (
            " The best is marked where its paired difference to the second "
            "best exceeds the standard error of that difference."
        )
        notes.append(
            f"Mean ± standard deviation over {seeds} seeds."
            + best_note * has_best
        )
    return Table(["", *(metric_of(name).head for name in names)], rows, notes)


def paired(
    frame: "pd.DataFrame",
    metric: str,
    reference: str | None = None,
    systems: Sequence[str] | Mapping[str, str] | None = None,
) -> Table:
    """Returns differences to a reference, on the seeds that both have.

    Args:
        frame: Result of `frame`.
        metric: Name of the metric.
        reference: Name of a system; defaults to the best of each data set.
        systems: As for `summary`.

    Returns:
        table: `Table`: mean and standard error of the differences, and in how
            many seeds a system is better than the reference.

    Raises:
        ValueError: If there are no results of the metric, or none of the
            reference.
    """
    frame, titles = _shown(frame, systems)
    shown = metric_of(metric)
    of_metric = frame[frame["metric"] == metric]
    for name, value, known in (
        ("metric", metric, frame["metric"]),
        ("reference", reference, of_metric["system"]),
    ):
        if value is not None and value not in set(known):
            raise ValueError(
                f"`{name}` must be one of "
                f"{', '.join(map(repr, known.unique()))}. "
                f"Received: {name}={value!r}"
            )
    rows = []
    for dataset, part in of_metric.groupby("dataset", sort=False):
        values = _values(part, metric, titles)
        ranked = _ranked(values, shown) if shown.better is not None else []
        other = reference or next(iter([*ranked, *values]))
        for system in values.columns.drop(other, errors="ignore"):
            both = values.reindex(columns=[system, other]).dropna()
            difference = both[system] - both[other]
            loss = shown.loss(both[system]) - shown.loss(both[other])
            label = _label(
                frame, dataset, f"{titles[system]} − {titles[other]}"
            )
            rows.append([label, "-", "-", f"{(loss < 0).sum()} of {len(both)}"])
            if len(both):
                rows[-1][1] = f"{difference.mean():+.{shown.digits}f}"
            if len(both) > 1:
                rows[-1][2] = f"{difference.sem():.{shown.digits}f}"
    if shown.better is None:
        rows = [row[:-1] for row in rows]
    head = ["", f"{shown.head}: difference", "standard error", "seeds won"]
    notes = ["Mean differences on the seeds that both have."]
    return Table(head[: 3 + (shown.better is not None)], rows, notes)


def _shown(frame, systems):
    """Returns the rows of the systems to show, and the systems' titles."""
    if systems is None:
        systems = frame["system"].unique()
    titles = dict(
        systems
        if isinstance(systems, Mapping)
        else zip(systems, systems, strict=True)
    )
    return frame[frame["system"].isin(list(titles))], titles


def _present(part, titles):
    found = set(part["system"])
    return [system for system in titles if system in found]


def _label(frame, dataset, title):
    is_one = frame["dataset"].nunique() == 1
    return title if is_one else f"{dataset}: {title}"


def _values(part, name, titles):
    """Returns the values of a metric: seeds x systems."""
    return (
        part[part["metric"] == name]
        .pivot(index="seed", columns="system", values="value")
        .reindex(
            index=sorted(part["seed"].unique()), columns=_present(part, titles)
        )
    )


def _ranked(values, shown):
    """Returns the systems that have all seeds, the best first."""
    whole = values.columns[np.isfinite(values).all()]
    return list(
        shown.loss(values[whole]).mean().sort_values(kind="stable").index
    )


def _best(values, shown):
    """Returns the system that is best beyond chance, or `None`."""
    ranked = _ranked(values, shown)
    if shown.better is None or len(ranked) < 2 or len(values) < 2:
        return None
    first, second = (shown.loss(values[system]) for system in ranked[:2])
    difference = second - first
    return ranked[0] if difference.mean() > difference.sem() else None


def _mean(values, digits):
    """Returns mean ± standard deviation; how many values if some lack."""
    found = values.dropna()
    if found.empty:
        return "-"
    text = f"{found.mean():.{digits}f}"
    is_count = not digits and found.nunique() == 1
    if len(found) > 1 and not is_count and np.isfinite(found).all():
        text += f" ± {found.std():.{digits}f}"
    return text if len(found) == len(values) else f"{text} (n={len(found)})"
