"""Wide tables of the site: MkDocs runs this file as a hook.

Each cell gets the title of its column, so that the style sheet can show rows as
cards, one cell below the other, where the screen is too narrow for the table.
"""

import html
import re

# Characters that fit beside each other on a telephone, and the gap of columns.
_FITS, _GAP = 44, 2
_TABLE = re.compile(r"<table>(.*?)</table>", re.DOTALL)
_TITLE = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
_CELL = re.compile(r"<td\b([^>]*)>(.*?)</td>", re.DOTALL)


def _text(markup):
    """Returns the text of a cell, with spaces where lines may break."""
    spaced = markup.replace("<wbr>", " ")
    return html.unescape(re.sub(r"<[^>]*>", "", spaced)).strip()


def _width(texts):
    """Returns the characters that a column needs at least."""
    return max(len(word) for text in texts for word in re.split(r"[ \n]", text))


def _labelled(match):
    titles = [_text(title) for title in _TITLE.findall(match[1])]
    cells = [_CELL.findall(row) for row in _ROW.findall(match[1])]
    rows = [[_text(markup) for _, markup in row] for row in cells if row]
    columns = zip(titles, *rows, strict=True)
    if sum(_width(column) + _GAP for column in columns) <= _FITS:
        return match[0]

    def row(found):
        each = iter(titles)
        return _CELL.sub(
            lambda cell: (
                f'<td{cell[1]} data-title="{html.escape(next(each))}">'
                f"{cell[2]}</td>"
            ),
            found[0],
        )

    return f"<table data-wide>{_ROW.sub(row, match[1])}</table>"


def on_page_content(content, page, config, files):
    """Changes the HTML of a page."""
    return _TABLE.sub(_labelled, content)
