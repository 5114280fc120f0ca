"""What the README says is true: its Python runs, its names exist."""

import re
import warnings

import pytest

from tests.support import code_names
from tests.support import markdown_code

_README = markdown_code.ROOT / "README.md"


@pytest.mark.parametrize(
    "num_blocks",
    [
        pytest.param(2, id="quick_start"),
        pytest.param(None, marks=pytest.mark.slow, id="all"),
    ],
)
def test_python_of_the_readme_runs(num_blocks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = markdown_code.regression_names()
    blocks = markdown_code.python_blocks(_README)
    assert len(blocks) >= 2
    for block in blocks[:num_blocks]:
        # Quick enough for a test: less training, the same calls.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The chains have not mixed")
            exec(markdown_code.shortened(block), names)


def test_functions_that_the_python_calls_have_these_arguments():
    blocks = markdown_code.python_blocks(_README)
    assert code_names.check_calls("\n".join(blocks)) > 20


def test_names_in_tables_exist():
    import tfp_refine as tfr

    for path in re.findall(r"`tfr\.([A-Za-z0-9_.]+)", _README.read_text()):
        target = tfr
        for part in path.split("."):
            target = getattr(target, part)


def test_commands_of_the_readme_exist():
    makefile = (markdown_code.ROOT / "Makefile").read_text()
    for target in re.findall(
        r"^make ([a-z-]+)", _README.read_text(), re.MULTILINE
    ):
        assert f"\n{target}:" in makefile
