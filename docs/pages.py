"""Pages of the site that are made from the code: the API and the tutorials.

MkDocs runs this file as a hook: see `hooks` in `mkdocs.yml`. A new room of
`tfp_refine`, a public name, or a notebook in `colab/`, gets its page without a
change here.
"""

import ast
import pathlib
import re

import jupytext
from mkdocs.structure import files as mkdocs_files

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = "tfp_refine"
# What the library is made of, and what is run rather than imported.
INTERNAL = ("_validation", "experiments", "math", "functional")
# Rooms in which only these classes show what they inherit: the many others of
# the room would repeat it.
BASES = {
    "losses": ("LikelihoodLoss",),
    "layers": ("RecurrentLayer", "SampledLayer", "VariationalLayer"),
}


def rooms():
    """Returns the names of the public rooms, sorted."""
    found = (ROOT / PACKAGE).glob("*/__init__.py")
    return sorted({path.parent.name for path in found} - set(INTERNAL))


def parse(room):
    """Returns a room's docstring and its public names, without importing it."""
    path = ROOT / PACKAGE / room / "__init__.py"
    module = ast.parse(path.read_text(encoding="utf-8"))
    (names,) = (
        ast.literal_eval(statement.value)
        for statement in module.body
        if isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == "__all__"
    )
    return ast.get_docstring(module), names


def api_page(room):
    """Returns the Markdown of a room's page: all its public names."""
    docstring, names = parse(room)
    parts = [f"# `{PACKAGE}.{room}`", docstring]
    bases = BASES.get(room, names)
    if room in BASES:
        links = ", ".join(
            f"[`{base}`][{PACKAGE}.{room}.{base}]" for base in bases
        )
        parts.append(f"What layers inherit is described once, in {links}.")
    for name in names:
        inherited = str(name in bases).lower()
        parts.append(
            f"::: {PACKAGE}.{room}.{name}\n"
            f"    options:\n      inherited_members: {inherited}"
        )
    return "\n\n".join(parts) + "\n"


def api_index():
    """Returns the Markdown of the page that lists the rooms."""
    rows = "\n".join(
        f"| [`{PACKAGE}.{room}`]({room}.md) | {parse(room)[0]} |"
        for room in rooms()
    )
    return f"""\
# API

By convention `import tfp_refine as tfr`. At the root are also
[`tfr.refine`][{PACKAGE}.refinement.refine],
[`tfr.RefinementCallback`][{PACKAGE}.refinement.RefinementCallback],
[`tfr.RefinedEnsemble`][{PACKAGE}.refinement.RefinedEnsemble],
[`tfr.elbo`][{PACKAGE}.refinement.elbo],
[`tfr.posterior`][{PACKAGE}.posteriors.posterior],
[`tfr.load_posterior`][{PACKAGE}.posteriors.load_posterior],
[`tfr.predict`][{PACKAGE}.posteriors.predict],
[`tfr.predict_proba`][{PACKAGE}.posteriors.predict_proba] and
[`tfr.summarize`][{PACKAGE}.posteriors.summarize]. `{PACKAGE}.plotting` needs
the extra `plot` and is imported by its full name.

| | |
|---|---|
{rows}
"""


def tutorials():
    """Returns `{name: Markdown}` of the notebooks in `colab/`."""
    return {
        path.stem: "\n\n".join(map(_markdown, jupytext.read(path).cells)) + "\n"
        for path in sorted((ROOT / "colab").glob("*.py"))
    }


def _markdown(cell):
    if cell.cell_type == "markdown":
        # The badge is an image of another host: pages need no network.
        return re.sub(r"\[!\[(.+?)\]\(.+?\)\]", r"[\1]", cell.source)
    return f"```python\n{cell.source}\n```"


def on_config(config):
    """Adds what is made here to the navigation."""
    config.nav.append(
        {"Tutorials": [f"tutorials/{name}.md" for name in tutorials()]}
    )
    config.nav.append(
        {"API": ["api/index.md", *(f"api/{room}.md" for room in rooms())]}
    )
    return config


def on_files(files, config):
    """Adds what is made here to the pages."""
    pages = {f"api/{room}.md": api_page(room) for room in rooms()}
    pages["api/index.md"] = api_index()
    for name, text in tutorials().items():
        pages[f"tutorials/{name}.md"] = text
    for path, text in pages.items():
        files.append(mkdocs_files.File.generated(config, path, content=text))
    return files
