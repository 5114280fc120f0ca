"""Tests of the files that describe the project."""

import pathlib

import yaml

from tfp_refine import version

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((_ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == version.__version__
    assert citation["license"] == "Apache-2.0"
    assert len(citation["references"]) == 5  # the papers
    released = f"## {version.__version__} ({citation['date-released']})"
    assert released in (_ROOT / "CHANGELOG.md").read_text("utf-8")
