"""The site is built without warnings, and has the whole public API."""

import html.parser
import importlib
import os
import re
import subprocess
import sys

import pytest

from tests.support import markdown_code

MODULES = {"math", "functional", "_validation", "experiments"}
ROOMS = sorted(
    path.parent.name
    for path in (markdown_code.ROOT / "tfp_refine").glob("*/__init__.py")
    if path.parent.name not in MODULES
)
pytestmark = pytest.mark.slow


class Page(html.parser.HTMLParser):
    """Ids and text of a page of the site, and the files that it fetches."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.fetched, self.text = set(), [], ""
        self.formulas = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.add(attrs.get("id"))
        self.formulas += tag == "math"
        if tag == "link":
            self.fetched.append(attrs["href"])
        elif "src" in attrs:
            self.fetched.append(attrs["src"])

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Returns `{path in the site: Page}`."""
    folder = tmp_path_factory.mktemp("site")
    process = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"]
        + ["--site-dir", folder],
        cwd=markdown_code.ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return {
        path.relative_to(folder).as_posix(): Page(path)
        for path in folder.rglob("*.html")
    }


@pytest.mark.parametrize("room", ROOMS)
def test_pages_of_a_room_have_its_public_names_and_no_others(site, room):
    assert f"api/{room}/index.html" in site
    ids = [
        id
        for name, page in site.items()
        if name.startswith(f"api/{room}/")
        for id in page.ids
    ]
    module = importlib.import_module(f"tfp_refine.{room}")
    prefix = f"tfp_refine.{room}."
    shown = {
        id.removeprefix(prefix).partition(".")[0]
        for id in ids
        if id is not None and id.startswith(prefix)
    }
    assert shown == set(module.__all__)


def test_docstrings_are_filled_in_and_divided_into_sections(site):
    text = site["api/layers/dense.html"].text
    assert "Posterior family of the kernel" in text
    for name, page in site.items():
        if name.startswith("api/"):
            assert not re.search(r"\{[a-z_]+\}", page.text), name
            assert "Args:" not in page.text, name


def test_constants_do_not_have_the_docstring_of_their_type(site):
    for constant in ((), "", 0):
        (line, *_) = type(constant).__doc__.splitlines()
        for name, page in site.items():
            assert line not in page.text, name


def test_functions_are_shown_in_place_of_the_modules_that_they_are_in(site):
    for name, page in site.items():
        for id in filter(None, page.ids):
            *_, before, last = f".{id}".split(".")
            assert before != last, name


def test_every_notebook_is_a_page(site):
    for path in (markdown_code.ROOT / "colab").glob("*.ipynb"):
        assert f"tutorials/{path.stem}.html" in site


def test_formulas_of_the_methods_are_shown(site):
    pages = "collapsed_bounds initialization kl_scaling laplace mnf refinement"
    for page in pages.split():
        assert site[f"{page}.html"].formulas > 5, page
    for name, page in site.items():
        assert "\\mathrm" not in page.text, name


def test_pages_need_nothing_from_the_network(site):
    assert {
        url
        for page in site.values()
        for url in page.fetched
        if re.match("(https?:)?//", url)
    } == set()
