"""A page of text, tables and figures, as Markdown and as HTML."""

import base64
import html
import io
import pathlib
from typing import NamedTuple

from tfp_refine.experiments import report_table

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 72em;
  margin: 2em auto; padding: 0 1em; color: #222; }}
div.table {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 0.2em 0.8em; text-align: right; white-space: nowrap;
  border-bottom: 1px solid #ddd; }}
th:first-child, td.text {{ text-align: left; font-weight: normal; }}
tr:first-child th {{ font-weight: bold; border-bottom: 2px solid #888; }}
figure {{ margin: 1.5em 0; }}
img {{ max-width: 100%; }}
figcaption {{ color: #555; max-width: 50em; }}
</style>
</head>
<body>
"""


class Figure(NamedTuple):
    """A figure of a page.

    Attributes:
        name: Name of its file, without the ending.
        caption: What is to be seen.
        figure: A figure, or its axes.
    """

    name: str
    caption: str
    figure: object


class Section(NamedTuple):
    """A section of a page.

    Attributes:
        title: Its heading.
        parts: Paragraphs (texts), `report_table.Table`s and `Figure`s.
    """

    title: str
    parts: list[str | report_table.Table | Figure]


def write(directory, name, title, sections):
    """Writes a page: `NAME.md`, `NAME.html` and the figures, as PNG files.

    The HTML page holds its figures, so that it can be sent as one file.

    Args:
        directory: Folder.
        name: Name of the page's files.
        title: Title of the page.
        sections: List of `Section`s.
    """
    directory = pathlib.Path(directory)
    markdown, page = [f"# {title}\n"], [f"<h1>{html.escape(title)}</h1>"]
    for section in sections:
        markdown.append(f"## {section.title}\n")
        page.append(f"<h2>{html.escape(section.title)}</h2>")
        for part in section.parts:
            if isinstance(part, str):
                markdown.append(f"{part}\n")
                page.append(f"<p>{html.escape(part)}</p>")
            elif isinstance(part, report_table.Table):
                markdown.append(part.to_markdown())
                page.append(f'<div class="table">{part.to_html()}</div>')
            else:
                png = _png(part.figure)
                _replace(directory / f"{part.name}.png", png)
                markdown.append(
                    f"![{part.name}]({part.name}.png)\n\n{part.caption}\n"
                )
                page.append(_html_figure(part, png))
    text = "\n".join(markdown)
    _replace(directory / f"{name}.md", text.encode())
    body = "\n".join([*page, "</body>", "</html>", ""])
    head = _HEAD.format(title=html.escape(title))
    _replace(directory / f"{name}.html", (head + body).encode())


def _html_figure(part, png):
    encoded = base64.b64encode(png).decode()
    caption = html.escape(part.caption)
    return (
        f'<figure><img alt="{html.escape(part.name)}" '
        f'src="data:image/png;base64,{encoded}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _png(figure):
    from tfp_refine import plotting

    with io.BytesIO() as stream:
        plotting.save(figure, stream, dpi=120, close=True)
        return stream.getvalue()


def _replace(path, contents):
    """Replaces a file, so that a reader sees the old one or the new."""
    temporary = path.with_name(f"tmp_{path.name}")
    temporary.write_bytes(contents)
    temporary.replace(path)
