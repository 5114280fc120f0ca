"""The versions of requirements that are declared, tested and refused."""

import importlib.metadata
import re
import subprocess
import sys

import pytest

from tests.support import markdown_code
from tfp_refine import version
from tools import versions

_SETUP = (markdown_code.ROOT / "setup.py").read_text(encoding="utf-8")


def import_package(**environment):
    """Imports the package in another process; returns its output."""
    name, installed = environment.pop("installed", ("", ""))
    program = (
        "import importlib.metadata\n"
        "real = importlib.metadata.version\n"
        "importlib.metadata.version = lambda name: (\n"
        f"    {installed!r} if name == {name!r} else real(name))\n"
        "import tfp_refine\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        env=markdown_code.environment() | environment,
        capture_output=True,
        text=True,
        check=False,
    ).stderr


def test_the_oldest_versions_are_pinned():
    setup = 'TF = [\n    "keras>=3.10",\n    "tf-keras",\n    "tfp>=0.25",\n]\n'
    assert versions.floors(setup) == ["keras==3.10.*", "tfp==0.25.*"]


def test_the_tests_of_versions_exist():
    for path in versions.TESTS:
        assert (markdown_code.ROOT / path).exists(), path


def test_the_oldest_tested_versions_are_the_floors_of_setup():
    oldest = {f"{name}=={a}.*" for name, (a, _) in version.TESTED.items()}
    assert oldest == set(versions.floors(_SETUP))


@pytest.mark.parametrize("name", ["README.md", "docs/index.md", "docs/faq.md"])
def test_the_documentation_names_the_tested_versions(name):
    text = (markdown_code.ROOT / name).read_text(encoding="utf-8")
    titles = ("TensorFlow", "Keras", "TensorFlow Probability")
    for title, ends in zip(titles, version.TESTED.values(), strict=True):
        shown = " to ".join(dict.fromkeys(ends))
        assert f"{title} {shown}" in " ".join(text.split())


def test_versions_that_are_installed_here_were_tested():
    for name, (_, newest) in version.TESTED.items():
        installed = re.findall(r"\d+", importlib.metadata.version(name))[:2]
        assert list(map(int, installed)) <= list(map(int, newest.split(".")))


@pytest.mark.parametrize("name", version.TESTED)
def test_a_version_that_is_too_old_is_named_with_those_tested(name):
    written = import_package(installed=(name, "0.2.1"))
    (line,) = re.findall("ImportError: .+", written)
    for tested, (oldest, newest) in version.TESTED.items():
        assert f"{tested} {oldest}" in line
        assert newest in line
    assert line.endswith(f"Received: {name} 0.2.1")


@pytest.mark.slow
def test_another_backend_is_named_with_the_tested_versions():
    written = import_package(KERAS_BACKEND="numpy")
    assert "KERAS_BACKEND=tensorflow" in written
    assert f"keras {version.TESTED['keras'][0]}" in written
    assert "Received: backend 'numpy'" in written
