"""Pages of the site that are made from the code: the API and the tutorials.

MkDocs runs this file as a hook: see `hooks` in `mkdocs.yml`. A new room of
`tfp_refine`, a public name, or a notebook that `docs/index.md` lists, gets its
page without a change here.
"""

import ast
import pathlib
import re

import nbformat
from mkdocs.structure import files as mkdocs_files

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = "tfp_refine"
_FILES = r"https://github\.com/tfp-refine/tfp_refine/blob/main"
_INSTALLS = '"-m", "pip", "install"'
# Rooms that users do not import.
INTERNAL = ("_validation", "experiments", "math", "functional")
# Rooms in which only these classes show inherited members: the many others of
# the room would repeat it.
BASES = {
    "losses": ("LikelihoodLoss",),
    "layers": ("RecurrentLayer", "SampledLayer", "VariationalLayer"),
}
# Rooms with a page for each subject: files of the room by title of the page. A
# file that is not named here is on the page of the room.
SUBJECTS = {
    "layers": {
        "Dense": ("dense", "einsum_dense"),
        "Convolutions": ("convolutions",),
        "Depthwise and separable convolutions": (
            "depthwise_convolutions",
            "separable_convolutions",
        ),
        "Transposed convolutions": ("transposed_convolutions",),
        "Attention": ("attention",),
        "Embeddings and recurrent layers": (
            "embedding_reparameterization",
            "recurrent_layers",
        ),
        "Multiplicative normalizing flows": ("mnf",),
        "Dropout": ("concrete_dropout", "mc_dropout"),
        "Posterior families": (
            "fixed_variance_posterior",
            "k_tied_posterior",
            "low_rank_posterior",
            "mean_field_posterior",
            "posterior_family",
        ),
        "Base classes": ("sampled_layer", "variational_layer"),
    },
    "metrics": {
        "Calibration": ("calibration",),
        "Classification": ("errors", "likelihood", "selective"),
        "Regression": ("predictive_distribution",),
        "Uncertainty and unknown inputs": ("entropy", "out_of_distribution"),
        "Metrics of fit and evaluate": ("streaming",),
    },
    "datasets": {
        "Tables": ("class_table", "numeric_table", "splits", "uci"),
        "Images": ("image_data", "image_split", "images", "matching"),
        "Shifts and corruptions": ("augmentation", "corruptions", "shifts"),
    },
}


def rooms():
    """Returns the names of the public rooms, sorted."""
    found = (ROOT / PACKAGE).glob("*/__init__.py")
    return sorted({path.parent.name for path in found} - set(INTERNAL))


def parse(room):
    """Returns a room's docstring and `{public name: file}`, without imports."""
    path = ROOT / PACKAGE / room / "__init__.py"
    module = ast.parse(path.read_text(encoding="utf-8"))
    (names,) = (
        ast.literal_eval(statement.value)
        for statement in module.body
        if isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == "__all__"
    )
    files = {
        alias.asname or alias.name: statement.module.rpartition(".")[2]
        for statement in module.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    return ast.get_docstring(module), {name: files[name] for name in names}


def api_pages(room):
    """Returns `{path: Markdown}` of a room's pages: all its public names."""
    docstring, names = parse(room)
    pages, table = {}, []
    for title, files in SUBJECTS.get(room, {}).items():
        here = [name for name, file in names.items() if file in files]
        path = f"{re.sub('[^a-z]+', '_', title.lower())}.md"
        pages[f"api/{room}/{path}"] = _api_page(f"# {title}", room, here)
        links = ", ".join(_link(room, name) for name in here)
        table.append(f"| [{title}]({path}) | {links} |")
        names = {k: v for k, v in names.items() if k not in here}
    parts = [f"# `{PACKAGE}.{room}`", docstring]
    if room in BASES:
        links = ", ".join(_link(room, base) for base in BASES[room])
        parts.append(f"Inherited members are described once, in {links}.")
    if table:
        parts.append("\n".join(["| subject | names |", "|---|---|", *table]))
    page = _api_page("\n\n".join(parts), room, names)
    return {f"api/{room}/index.md": page, **pages}


def _link(room, name):
    return f"[`{name}`][{PACKAGE}.{room}.{name}]"


def _api_page(head, room, names):
    """Returns the Markdown of a page with some of a room's names."""
    parts = [head]
    for name in names:
        inherited = str(name in BASES.get(room, names)).lower()
        parts.append(
            f"::: {PACKAGE}.{room}.{name}\n"
            f"    options:\n      inherited_members: {inherited}"
        )
    return "\n\n".join(parts) + "\n"


def api_index():
    """Returns the Markdown of the page that lists the rooms."""
    rows = "\n".join(
        f"| [`{PACKAGE}.{room}`]({room}/index.md) | {parse(room)[0]} |"
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

| package | contents |
|---|---|
{rows}
"""


def tutorials():
    """Returns `{name: Markdown}` of the notebooks, in their order."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {}
    for name in re.findall(r"\(tutorials/(\w+)\.md\)", index):
        notebook = nbformat.read(ROOT / "colab" / f"{name}.ipynb", as_version=4)
        # Only who runs a notebook needs the cell that installs the package.
        cells = [
            cell for cell in notebook.cells if _INSTALLS not in cell.source
        ]
        pages[name] = "\n\n".join(map(_markdown, cells)) + "\n"
    return pages


def break_cells(html):
    """Has cells of tables break between words of a name, never around `±`."""
    between = r"(?<=[._(,=])|(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])"

    def in_cell(cell):
        return re.sub(
            r"(?<=<code>)[^<]+",
            lambda code: re.sub(between, "<wbr>", code.group()),
            cell.group().replace(" ± ", "&nbsp;±&nbsp;"),
        )

    return re.sub(r"<t[dh].*?</t[dh]>", in_cell, html, flags=re.DOTALL)


def _markdown(cell):
    if cell.cell_type == "markdown":
        # The badge is an image of another host: pages need no network.
        text = re.sub(r"\[!\[(.+?)\]\(.+?\)\]", r"[\1]", cell.source)
        text = re.sub(rf"{_FILES}/colab/(\w+)\.ipynb", r"\1.md", text)
        return re.sub(rf"{_FILES}/docs/", "../", text)
    parts = [f"```python\n{cell.source}\n```"]
    for output in cell.outputs:
        data = output.get("data", {})
        if "image/png" in data:
            png = "".join(data["image/png"].split())
            parts.append(f"![Figure](data:image/png;base64,{png})")
        else:
            text = output.get("text") or data["text/plain"]
            parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts)


def on_config(config):
    """Adds generated pages to the navigation."""
    config.nav.append(
        {"Tutorials": [f"tutorials/{name}.md" for name in tutorials()]}
    )
    api = ["api/index.md"]
    for room in rooms():
        page, *subjects = api_pages(room)
        api.append({room: [page, *subjects] if subjects else page})
    config.nav.append({"API": api})
    return config


def on_files(files, config):
    """Adds generated pages to the site."""
    pages = {"api/index.md": api_index()}
    for room in rooms():
        pages |= api_pages(room)
    for name, text in tutorials().items():
        pages[f"tutorials/{name}.md"] = text
    for path, text in pages.items():
        files.append(mkdocs_files.File.generated(config, path, content=text))
    return files


def on_page_content(html, page, config, files):
    """Changes the HTML of a page."""
    return break_cells(html)
