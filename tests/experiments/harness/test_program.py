"""A small experiment is run as users run them: as a command."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from tests.support import example_program
from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import program

# Without the root of the package, which imports every room and TensorFlow.
# The parent of pytest may ignore Ctrl-C.
_START = """\
import runpy, signal, sys, types
root = types.ModuleType("tfp_refine")
root.__path__ = ["tfp_refine"]
sys.modules["tfp_refine"] = root
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("tests.support.example_program", run_name="__main__")
"""
WORDS = [sys.executable, "-c", _START]
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("TF_CPP_MIN_LOG_LEVEL", "COLUMNS")
}


def run(*flags):
    return subprocess.run(
        [*WORDS, *flags],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )


def test_flags_become_a_configuration():
    process = run(
        "--dataset=boston", "--splits", "3", "--hidden=8,4", "--download",
        "--noprogress", "--systems=swag,refined(vi, num_members=2)",
        "--train_steps=", "--learning_rate=1", "--output_dir=here",
    )  # fmt: skip
    expected = example_program.Config(
        dataset="boston",
        splits=3,
        hidden=(8, 4),
        download=True,
        progress=False,
        systems=("swag", "refined(vi, num_members=2)"),
        train_steps=None,
        learning_rate=1.0,
        output_dir="here",
    )
    assert process.stdout == f"{expected}\n"
    assert process.stderr == ""
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--splits=0", "--splits must be at least 1. Received: --splits=0"),
        (
            "--hidden=8,many",
            "--hidden must be a list of integers. Received: --hidden=8,many",
        ),
        (
            "--download=maybe",
            "--download must be true or false. Received: --download=maybe",
        ),
        (
            "--splitz=2",
            "Unknown command line flag 'splitz'. Did you mean: splits ?",
        ),
        ("stray", "Flags must be --NAME=VALUE. Received: stray"),
        ("--verbosity=much", "flag --verbosity=much: invalid literal"),
        ("--dataset", "Missing value for flag --dataset"),
    ],
)
def test_wrong_flags_are_told_in_one_line(flag, message):
    process = run(flag)
    (line,) = process.stderr.splitlines()
    assert line.startswith(f"example: {message}")
    assert process.stdout == ""
    assert process.returncode == 2


@pytest.mark.slow
def test_only_check_args_checks_and_runs_nothing():
    assert run("--only_check_args", "--action=fail").returncode == 0
    assert run("--only_check_args", "--splits=0").returncode == 2


def test_what_goes_wrong_is_told_in_one_line():
    process = run("--action=fail")
    assert process.stderr == "example: `x` must be finite. Received: x=nan\n"
    assert process.returncode == 1


@pytest.mark.slow
def test_noise_of_libraries_is_shown_on_request():
    assert run().stderr == ""
    assert run("--verbosity=1").stderr == "noise\n"


@pytest.mark.slow
def test_a_defect_shows_where_it_is_and_messages_do_on_request():
    assert "Traceback" in run("--action=break").stderr
    assert "Traceback" in run("--action=fail", "--verbosity=1").stderr


@pytest.mark.slow
@pytest.mark.parametrize("flags", [["--help"], ["--help", "--splits=many"]])
def test_help_shows_the_experiment_before_its_flags(flags):
    process = run(*flags)
    assert process.returncode == 0
    assert process.stderr == ""
    lines = process.stdout.splitlines()
    assert lines[0] == "Does as it is told."
    assert "settings: Configuration." not in process.stdout
    assert max(map(len, lines)) <= 80
    assert "--run_with_pdb" not in process.stdout


def test_help_may_be_read_in_part():
    with subprocess.Popen(
        [*WORDS, "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_help_has_each_flag_with_its_default():
    text = program.help_text(
        "example", example_program.Config, example_program.run.__doc__
    )
    lines = text.splitlines()
    for line in (
        "  --splits=5                  Number of splits.",
        "  --[no]progress              Show progress bars. Default: true.",
        "  --train_steps=100           Steps.",
        "  --learning_rate=0.01        Of Adam.",
        "  --systems=vi,refined(vi, num_members=5)",
        "  --output_dir=               Folder for results.",
    ):
        assert line in lines
    # Common ones come first, though others were declared before.
    assert lines[lines.index("Training:") + 1].startswith("  --train_steps")
    titles = [f"{group.capitalize()}:" for group in config.GROUPS]
    assert [line for line in lines if line in titles] == titles


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_help_fits_the_terminal(width):
    text = program.help_text(
        "example", example_program.Config, "Doc. " * 50, width=width
    )
    longest = max(
        len(line) for line in text.splitlines() if "python -m" not in line
    )
    assert longest <= width


@pytest.mark.slow
def test_helpfull_shows_the_flags_of_absl_and_list_what_there_is():
    full, listed = run("--helpfull"), run("--list")
    assert "--run_with_pdb=False" in full.stdout
    assert listed.stdout == "Data sets: yacht, boston\n"
    assert full.returncode == listed.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("action", ["sleep", "wrap"])
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_an_interruption_ends_with_one_line(action, number, status):
    with subprocess.Popen(
        [*WORDS, f"--action={action}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        # TensorFlow, imported from now on, is silent.
        assert process.stdout.readline() == "ready 3\n"
        process.send_signal(number)
        _, errors = process.communicate()
    assert errors == (
        "example: stopped. The same command continues where it was.\n"
    )
    assert process.returncode == status


def on_a_terminal(*flags):
    """Returns the output of a command on a terminal."""
    main_end, end = pty.openpty()
    process = subprocess.Popen([*WORDS, *flags], stdout=end, stderr=end)
    os.close(end)
    written = b""
    while True:
        try:
            part = os.read(main_end, 4096)
        except OSError:  # The other end is closed.
            part = b""
        if not part:
            break
        written += part
    os.close(main_end)
    assert process.wait() == 0
    return written.decode()


@pytest.mark.slow
def test_progress_is_lines_without_a_terminal_or_on_request():
    plain = run("--action=progress").stderr
    lines = plain.splitlines()
    assert lines[0].startswith("training: 10% (4 of 40 steps), 0 s left")
    assert lines[-1] == "training: 40 steps in 0 s"
    assert len(lines) == 10
    on_request = on_a_terminal("--action=progress", "--noprogress")
    assert on_request.replace("\r\n", "\n") == plain
    assert "\x1b" not in plain


def test_progress_is_a_bar_on_a_terminal():
    written = on_a_terminal("--action=progress")
    assert written.endswith("\r\x1b[Ktraining: 40 steps in 0 s\r\n")
