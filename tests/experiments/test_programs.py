"""Experiments as commands."""

import os
import pathlib
import subprocess
import sys

import pytest

from tfp_refine import experiments

NAMES = sorted(
    path.parent.name
    for path in pathlib.Path(experiments.__file__).parent.glob("*/__main__.py")
)
# Of the messages of TensorFlow, which tests lower.
_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def run(name, *flags):
    return subprocess.run(
        [
            sys.executable, "-X", "importtime", "-m",
            f"tfp_refine.experiments.{name}", *flags,
        ],
        capture_output=True,
        text=True,
        check=False,
        env={n: v for n, v in os.environ.items() if n != _LEVEL},
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_help_is_grouped_and_needs_no_tensorflow(name):
    process = run(name, "--help")
    assert process.returncode == 0
    assert f"python -m tfp_refine.experiments.{name}" in process.stdout
    assert "\nOutput:\n" in process.stdout
    assert "| tensorflow\n" not in process.stderr


@pytest.mark.slow
def test_the_list_is_all_that_is_written():
    process = run("uci", "--list")
    assert process.returncode == 0
    assert "\nModels: mlp, lenet5, " in process.stdout
    others = [
        line
        for line in process.stderr.splitlines()
        if not line.startswith("import time:")
    ]
    assert others == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_value_names_its_flag(name):
    process = run(name, "--seed=-1")
    assert process.returncode == 2
    assert process.stderr.splitlines()[-1] == (
        f"{name}: --seed must be at least 0. Received: --seed=-1"
    )


def test_a_python_without_docstrings_is_named_as_the_reason():
    process = subprocess.run(
        [sys.executable, "-OO", "-m", "tfp_refine.experiments.uci", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode != 0
    assert "which Python leaves out with -OO" in process.stderr
