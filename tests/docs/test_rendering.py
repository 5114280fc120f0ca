import importlib.util
import types

import pytest
from mkdocs import exceptions

from tests.support import markdown_code

TEXT = """\
Does something.

Call arguments:
    inputs: Tensor, `[B, ...]`,
        of numbers: any.
    **kwargs: Others.

Input shape:
    other: `[B]`.
"""


def load(name):
    """Imports a Python file of `docs/`, which is no package."""
    spec = importlib.util.spec_from_file_location(
        name, markdown_code.ROOT / "docs" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_call_arguments_become_a_list_and_nothing_else_does():
    assert load("rendering").list_call_arguments(TEXT) == TEXT.replace(
        "    inputs: ", "    - `inputs`: "
    ).replace("    **kwargs: ", "    - `**kwargs`: ")


def test_notebooks_become_markdown_with_their_code_and_outputs():
    pages = load("pages").tutorials()
    assert list(pages)[0] == "quickstart"
    text = pages["quickstart"]
    assert text.startswith("# ")
    assert "```python\n" in text
    assert "refined        NLL 0." in text.partition("```text\n")[2]
    assert "](data:image/png;base64," in text
    assert "jupytext" not in text
    assert '"pip"' not in text


def test_links_of_notebooks_lead_to_pages_of_the_site():
    for text in load("pages").tutorials().values():
        last = text.rpartition("## What to try next")[2]
        assert ".md)" in last
        assert "github.com" not in last


def test_names_in_tables_break_between_words():
    html = "<p><code>aB</code></p><td>1 ± 2 <code>tfr.LaplaceKL</code></td>"
    assert load("pages").break_cells(html) == (
        "<p><code>aB</code></p>"
        "<td>1&nbsp;±&nbsp;2 <code>tfr.<wbr>Laplace<wbr>KL</code></td>"
    )


def formulas(html):
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="page.md"))
    return load("formulas").on_page_content(html, page, None, None)


def test_formulas_become_mathml():
    html = formulas(
        r'<p>5 $ <span class="arithmatex">\(x \sim \log p &lt; 1\)</span></p>'
        '<div class="arithmatex">\\[\nx^2\n\\]</div>'
    )
    assert html.startswith('<p>5 $ <math xmlns="')
    assert 'display="inline"' in html
    assert "<mi>x</mi><mo>&#x0223C;</mo><mi>log</mi><mspace" in html
    assert "&#x0003C;" in html
    assert '<div class="formula"><math' in html
    assert "<msup><mi>x</mi><mn>2</mn></msup>" in html
    assert "arithmatex" not in html


def test_a_formula_with_an_unknown_command_stops_the_build():
    with pytest.raises(exceptions.PluginError, match=r"page\.md.*\\\\foo"):
        formulas(r'<span class="arithmatex">\(\foo x\)</span>')


def table(*rows):
    head, *body = (
        "".join(f"<{tag}>{cell}</{tag}>" for cell in row)
        for tag, row in zip(
            ["th", *["td"] * (len(rows) - 1)], rows, strict=True
        )
    )
    lines = "".join(f"<tr>{row}</tr>" for row in body)
    return f"<table><thead><tr>{head}</tr></thead>{lines}</table>"


def with_titles(html):
    return load("tables").on_page_content(html, None, None, None)


def test_cells_of_wide_tables_have_the_titles_of_their_columns():
    numbers = ["<b>1.234&nbsp;±&nbsp;0.123</b>"] * 2
    wide = table(["", "NLL", "a &lt; b"], ["boston", *numbers], ["x", "", "1"])
    html = with_titles(f"<p>{wide}</p>{wide}".replace("boston", "b" * 20))
    assert html.count("<table data-wide>") == 2
    assert html.count(f'<td data-title="NLL">{numbers[0]}</td>') == 2
    assert html.count('<td data-title="a &lt; b">1</td>') == 2
    assert f'<td data-title="">{"b" * 20}</td>' in html


def test_narrow_tables_stay_as_they_are():
    words = "many words that may break " * 9
    narrow = table(["name", "text"], ["<code>a<wbr>b</code>", words])
    assert with_titles(narrow) == narrow
