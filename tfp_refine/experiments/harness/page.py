"""Pages of text, tables and figures, as Markdown and as HTML."""

import base64
import datetime
import html
import importlib.util
import io
import os
import pathlib
import shlex
import textwrap
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
from absl import logging

from tfp_refine import _storage
from tfp_refine import version
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import tables

_DPI = 120
_EM_PER_INCH = 3.8  # on narrow screens, where wide figures scroll
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 80em;
  margin: 2em auto; padding: 0 1em; color: #222; background: #fff; }}
p, figcaption {{ max-width: 50em; }}
div.table, div.figure, dd {{ overflow-x: auto; }}
table {{ border-collapse: separate; border-spacing: 0;
  font-variant-numeric: tabular-nums; }}
th, td {{ padding: 0.2em 0.6em; text-align: right; vertical-align: top;
  border-bottom: 1px solid #ddd; font-weight: normal; }}
td, span {{ white-space: nowrap; }}
td.text, th.text, th:first-child {{ text-align: left; }}
td.text {{ white-space: normal; min-width: 10em; }}
thead th {{ font-weight: bold; vertical-align: bottom;
  border-bottom: 2px solid #888; }}
th:first-child {{ position: sticky; left: 0; background: #fff;
  min-width: 6em; max-width: 20em; border-right: 1px solid #ddd; }}
figure {{ margin: 1.5em 0; }}
img {{ max-width: 100%; height: auto; }}
dl, figcaption {{ color: #555; }}
dt {{ float: left; clear: left; width: 6em; }}
dd {{ margin: 0 0 0 6em; }}
@media (max-width: 600px) {{
  body {{ font-size: 14px; margin: 1em auto; }}
  th, td {{ padding: 0.2em 0.4em; }}
  th:first-child {{ width: 1px; min-width: 7em; max-width: none; }}
}}
@media (min-width: 601px) {{ img {{ min-width: 0 !important; }} }}
</style>
</head>
<body>
"""


class Figure(NamedTuple):
    """A figure of a page.

    Attributes:
        name: Name of its file, without the ending.
        caption: Text below it.
        figure: `matplotlib.figure.Figure`, or the axes of one: an
            `matplotlib.axes.Axes` or an array of them.
    """

    name: str
    caption: str
    figure: Any

    def png(self) -> bytes:
        """Returns the contents of a PNG file, and closes the figure."""
        from matplotlib import pyplot

        figure = np.asarray(self.figure, dtype=object).flat[0].figure
        with io.BytesIO() as stream:
            figure.savefig(stream, format="png", dpi=_DPI)
            pyplot.close(figure)
            return stream.getvalue()


def can_plot() -> bool:
    """Returns whether matplotlib is installed; logs how to get it if not."""
    if importlib.util.find_spec("matplotlib") is not None:
        return True
    logging.warning(
        "No plots: matplotlib is missing (pip install 'tfp_refine[plot]')."
    )
    return False


def figure(name: str, caption: str, draw: Callable[[], Any]) -> list[Figure]:
    """Returns a list of a `Figure`, empty if `draw` gives `None`, or cannot."""
    drawn = draw() if can_plot() else None
    return [] if drawn is None else [Figure(name, caption, drawn)]


class Section(NamedTuple):
    """A section of a page.

    Attributes:
        title: Its heading.
        parts: Paragraphs (texts), `tables.Table`s and `Figure`s.
    """

    title: str
    parts: Sequence[str | tables.Table | Figure]


def header(experiment: str, config: config_lib.Config) -> dict[str, str]:
    """Returns the header of a page: command, version and date."""
    words = ["python", "-m", f"tfp_refine.experiments.{experiment}"]
    words += config.flags()
    now = datetime.datetime.now(datetime.UTC)
    return {
        "Command": shlex.join(words),
        "Version": f"tfp_refine {version.__version__}",
        "Date": f"{now:%Y-%m-%d %H:%M} UTC",
    }


def show(sections: Iterable[Section]) -> None:
    """Prints sections on the terminal, without their figures."""
    for section in sections:
        print(f"{section.title}\n")
        for part in section.parts:
            if isinstance(part, str):
                print(f"{textwrap.fill(part, 100)}\n")
            elif isinstance(part, tables.Table):
                print(part.to_text(), flush=True)


def write(
    directory: str | os.PathLike[str],
    title: str,
    sections: Sequence[Section],
    header: Mapping[str, str],
) -> None:
    """Writes a page: `report.md`, `report.html` and the figures, as PNG files.

    The HTML page holds its figures, so it can be sent as one file.

    Args:
        directory: Folder.
        title: Title of the page.
        sections: List of `Section`s.
        header: Dict of the entries below the title, as `header` returns.

    Raises:
        OSError: If a file cannot be written.
    """
    directory = pathlib.Path(directory)
    items = "".join(f"- {k}: `{v}`\n" for k, v in header.items())
    markdown = [f"# {title}\n", items]
    page = [f"<h1>{html.escape(title)}</h1>", "<dl>"]
    page += [
        f"<dt>{html.escape(k)}</dt><dd>{tables.html_words(v)}</dd>"
        for k, v in header.items()
    ]
    page.append("</dl>")
    for section in sections:
        markdown.append(f"## {section.title}\n")
        page.append(f"<h2>{html.escape(section.title)}</h2>")
        for part in section.parts:
            if isinstance(part, str):
                markdown.append(f"{part}\n")
                page.append(f"<p>{tables.html_words(part)}</p>")
            elif isinstance(part, tables.Table):
                markdown.append(part.to_markdown())
                page.append(part.to_html())
            else:
                png = part.png()
                _storage.write_bytes(directory / f"{part.name}.png", png)
                markdown.append(
                    f"![{part.name}]({part.name}.png)\n\n{part.caption}\n"
                )
                inches = int.from_bytes(png[16:20]) / _DPI
                page.append(
                    '<figure><div class="figure">'
                    f'<img alt="{html.escape(part.name)}" '
                    f'style="min-width: {_EM_PER_INCH * inches:.0f}em" '
                    'src="data:image/png;base64,'
                    f'{base64.b64encode(png).decode()}"></div><figcaption>'
                    f"{tables.html_words(part.caption)}</figcaption></figure>"
                )
    head = _HEAD.format(title=html.escape(title))
    text = "\n".join([head, *page, "</body>", "</html>", ""])
    _storage.write_bytes(directory / "report.md", "\n".join(markdown).encode())
    _storage.write_bytes(directory / "report.html", text.encode())


def publish(
    directory: str | os.PathLike[str],
    title: str,
    sections: Sequence[Section],
    header: Mapping[str, str],
) -> None:
    """Prints sections, and writes them as a page, as `show` and `write` do."""
    show(sections)
    write(directory, title, sections, header)
    print(f"Report: {pathlib.Path(directory) / 'report.html'}\n")
