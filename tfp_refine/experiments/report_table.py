"""Tables of results over several seeds, as Markdown and as HTML."""

import html
import math
import statistics
from typing import NamedTuple


class Column(NamedTuple):
    """A metric of a table.

    Attributes:
        title: Its head.
        digits: Digits after the point.
        better: "low", "high", a number that it should be near to, or `None`
            where nothing is better.
        has_spread: Whether standard deviations are shown.
    """

    title: str
    digits: int
    better: str | float | None = None
    has_spread: bool = True


class Cell(NamedTuple):
    """What a table shows of a method and a metric.

    Attributes:
        text: Mean and, of several seeds, their standard deviation.
        is_best: Whether no other method's mean is better, to the digits that
            are shown.
    """

    text: str
    is_best: bool


class Table(NamedTuple):
    """A table that is made of results.

    Attributes:
        head: Titles of the columns, first that of the methods.
        rows: Dict from title of a method to its cells.
        notes: What is to be said below, list of lines.
    """

    head: list[str]
    rows: dict[str, list[Cell]]
    notes: list[str]

    def to_markdown(self):
        """Returns the table as Markdown, the best in bold."""
        lines = [self.head, ["---"] * len(self.head)]
        for title, cells in self.rows.items():
            lines.append(
                [
                    title,
                    *(
                        f"**{cell.text}**" if cell.is_best else cell.text
                        for cell in cells
                    ),
                ]
            )
        escaped = (
            [entry.replace("|", "\\|") for entry in line] for line in lines
        )
        table = "\n".join(f"| {' | '.join(line)} |" for line in escaped)
        return "\n\n".join([table, *self.notes]) + "\n"

    def to_html(self):
        """Returns the table as HTML, a `<table>` and paragraphs."""
        head = "".join(f"<th>{html.escape(title)}</th>" for title in self.head)
        rows = [f"<tr>{head}</tr>"]
        for title, cells in self.rows.items():
            entries = [f"<th>{html.escape(title)}</th>"]
            for text, is_best in cells:
                text = html.escape(text)
                kind = ' class="text"' if text[:1].isalpha() else ""
                text = f"<b>{text}</b>" if is_best else text
                entries.append(f"<td{kind}>{text}</td>")
            rows.append(f"<tr>{''.join(entries)}</tr>")
        notes = "".join(f"<p>{html.escape(note)}</p>\n" for note in self.notes)
        return "<table>\n" + "\n".join(rows) + "\n</table>\n" + notes


def table(results, columns, reasons=None, num_seeds=None):
    """Makes a table.

    Args:
        results: Dict from title of a method to a list, one for each seed, of a
            dict from a metric to a number; metrics may be missing. A method
            that lacks seeds of others is not compared with them.
        columns: Dict from a metric to its `Column`, in the order of the table.
        reasons: Dict from title of a method without results to why, a
            sentence; it gets a row of its own.
        num_seeds: Number of seeds; defaults to the most that a method has.

    Returns:
        table: `Table`. Columns that no method has are left out.
    """
    values = {
        title: {
            name: [run[name] for run in runs if name in run] for name in columns
        }
        for title, runs in results.items()
    }
    shown = {
        name: column
        for name, column in columns.items()
        if any(of_method[name] for of_method in values.values())
    }
    count = num_seeds or max(map(len, results.values()), default=0)
    best = {
        name: _best(
            [of[name] for of in values.values() if len(of[name]) == count],
            column,
        )
        for name, column in shown.items()
    }
    rows = {}
    for title, of_method in values.items():
        seeds = len(results[title])
        is_whole = seeds == count
        rows[title if is_whole else f"{title} ({seeds} of {count} seeds)"] = [
            _cell(of_method[name], column, best[name] if is_whole else None)
            for name, column in shown.items()
        ]
    notes = []
    if results and count == 1:
        notes.append("One seed: how much it matters is not known.")
    elif results:
        notes.append(f"Means ± standard deviations over {count} seeds.")
    for title, reason in (reasons or {}).items():
        rows[title] = [Cell("-", False)] * len(shown)
        notes.append(f"{title}: {reason}")
    heads = [column.title for column in shown.values()]
    return Table(["", *heads], rows, notes)


def _best(of_methods, column):
    """Returns the best mean, rounded as shown, or `None`."""
    means = [_rounded(v, column) for v in of_methods if v]
    means = [mean for mean in means if math.isfinite(mean)]
    if column.better is None or len(means) < 2:
        return None
    if isinstance(column.better, float):
        return min(means, key=lambda mean: abs(mean - column.better))
    return min(means) if column.better == "low" else max(means)


def _cell(values, column, best):
    if not values:
        return Cell("-", False)
    text = f"{statistics.fmean(values):.{column.digits}f}"
    if len(values) > 1 and column.has_spread:
        text += f" ± {statistics.stdev(values):.{column.digits}f}"
    return Cell(text, best is not None and _rounded(values, column) == best)


def _rounded(values, column):
    return round(statistics.fmean(values), column.digits)
