"""Formulas of the site: MkDocs runs this file as a hook.

TeX between dollar signs becomes MathML when the site is built, so that pages
need neither a script nor a network.
"""

import html
import re

from latex2mathml import converter
from mkdocs import exceptions

# The output of `pymdownx.arithmatex` for `$...$` and `$$...$$`.
_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">'
    r"\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>",
    re.DOTALL,
)
_SPACE = '<mspace width="0.167em" />'


def mathml(tex, display="inline"):
    """Returns the MathML of a formula; `display` is "inline" or "block".

    Raises:
        ValueError: If a command of TeX is not known.
    """
    found = converter.convert(tex, display=display)
    unknown = re.findall(r"\\\w+", found)
    if unknown:
        raise ValueError(f"unknown commands {unknown}. Received: {tex!r}")
    # TeX has space between the name of a function and a letter, and around `~`.
    found = re.sub("(<mi>(?:exp|log)</mi>)(?!<mo)", rf"\1{_SPACE}", found)
    return found.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")


def on_page_content(content, page, config, files):
    """Changes the HTML of a page."""

    def formula(match):
        tex = html.unescape(match["tex"]).strip()
        if match["tag"] == "span":
            return mathml(tex)
        return f'<div class="formula">{mathml(tex, "block")}</div>'

    try:
        return _FORMULA.sub(formula, content)
    except ValueError as error:
        raise exceptions.PluginError(f"{page.file.src_uri}: {error}") from error
