"""Tests of the checks of `tools/release.py`, and of this repository by them."""

import pytest

from tests.support import markdown_code
from tools import release

_ROOT = markdown_code.ROOT
_FILES = {
    "tfp_refine/version.py": '"""Doc."""\n\n__version__ = "1.2.3"\n',
    "CHANGELOG.md": "# Changelog\n\n## 1.2.3 (2027-01-31)\n\n"
    "## 1.2.2 (2026-12-01)\n",
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.3\n"
    "date-released: 2027-01-31\n",
}
_TRACKED = ["setup.py", "docs/a.md", ".ci/run", "tfp_refine/b.py"]
_SDIST = ["setup.py", "docs/a.md", "tfp_refine/b.py", "PKG-INFO"]
_WHEEL = ["tfp_refine/b.py", "tfp_refine-1.2.3.dist-info/METADATA"]


def version_errors(**changed):
    files = {**_FILES, **changed}
    return release.version_errors(*release.stated_versions(files.__getitem__))


def test_one_version_and_date_everywhere_can_be_released():
    assert version_errors() == []


@pytest.mark.parametrize(
    ("file", "old", "new", "error"),
    [
        ("CITATION.cff", "1.2.3", "1.2.2", "the versions differ"),
        ("CITATION.cff", "2027-01-31", "2027-01-30", "the dates differ"),
        ("CITATION.cff", "date-released: ", "date: ", "not released"),
        ("CHANGELOG.md", "2027-01-31", "not released", "no date of a release"),
        ("CHANGELOG.md", "## 1.2.3 (2027-01-31)", "", "1.2.2"),
        ("tfp_refine/version.py", "1.2.3", "1.2.3.dev0", "no version of a"),
    ],
)
def test_what_cannot_be_released_is_named(file, old, new, error):
    errors = version_errors(**{file: _FILES[file].replace(old, new)})
    assert error in "\n".join(errors)


def test_this_version_can_be_released():
    def read(name):
        return (_ROOT / name).read_text(encoding="utf-8")

    assert release.version_errors(*release.stated_versions(read)) == []


@pytest.mark.parametrize(
    ("sdist", "wheel", "error"),
    [
        (_SDIST, _WHEEL, ""),
        (_SDIST[1:], _WHEEL, "missing in the source distribution: setup.py"),
        ([*_SDIST, "notes.txt"], _WHEEL, "not of the repository, in the"),
        (_SDIST, _WHEEL[1:], "missing in the wheel: tfp_refine/b.py"),
        (_SDIST, [*_WHEEL, "tests/c.py"], "not of the package, in the wheel"),
    ],
)
def test_files_that_are_missing_or_too_many_are_named(sdist, wheel, error):
    errors = release.content_errors(_TRACKED, sdist, wheel)
    assert len(errors) == bool(error)
    assert error in "".join(errors)


def test_the_quick_start_is_the_first_block_of_the_readme():
    readme = _ROOT / "README.md"
    code = release.quick_start(readme.read_text(encoding="utf-8"))
    assert code == markdown_code.python_blocks(readme)[0]


def test_head_is_tagged_once(tmp_path, monkeypatch):
    monkeypatch.setattr(release, "ROOT", tmp_path)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A. Tester")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "tester@example.com")
    release.git("init", "--quiet")
    release.git("commit", "--quiet", "--allow-empty", "--message=First")
    release.tag_head("1.2.3")
    release.tag_head("1.2.3")
    assert release.git("tag", "--list") == ["v1.2.3"]
    assert release.git("cat-file", "-t", "v1.2.3") == ["tag"]
    assert release.git("rev-list", "-n", "1", "v1.2.3") == release.git(
        "rev-parse", "HEAD"
    )
