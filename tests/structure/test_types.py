"""A type checker of a user sees the arguments of layers."""

import subprocess
import sys
import tomllib

import pytest

from tests.structure import build_file

_SOUND = """\
from tfp_refine import layers

layers.DenseFlipout(3, "relu", True, "he_normal", num_train_examples=9)
layers.Conv2DFlipout(3, (2, 2), kernel_posterior=layers.KTiedPosterior(1))
layers.LSTMReparameterization(3, seed=1, return_sequences=True)
"""
_WRONG = """\
from tfp_refine import layers

layers.DenseFlipout("3")
layers.DenseFlipout(3, unit=4)
layers.Conv2DFlipout(3)
layers.LSTMReparameterization(3, recurrent_posterior=0.1)
"""


def test_packages_ship_their_annotations():
    assert (build_file.ROOT / build_file.PACKAGE / "py.typed").exists()


def test_rooms_that_are_checked_exist():
    text = (build_file.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    checked = tomllib.loads(text)["tool"]["mypy"]["packages"]
    rooms = {f"{build_file.PACKAGE}.{room}" for room in ("layers", "losses")}
    assert rooms <= set(checked)
    for package in checked:
        assert build_file.ROOT.joinpath(*package.split(".")).is_dir()


@pytest.mark.slow
def test_wrong_arguments_of_layers_are_found_without_running_them(tmp_path):
    path = tmp_path / "program.py"
    reports = []
    for program in (_SOUND, _WRONG):
        path.write_text(program, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--no-incremental", str(path)],
            cwd=build_file.ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        reports.append(
            [line for line in done.stdout.splitlines() if path.name in line]
        )
    sound, wrong = reports
    assert sound == []
    found = {line.split(":")[1] for line in wrong if "error" in line}
    assert found == {"3", "4", "5", "6"}, wrong
