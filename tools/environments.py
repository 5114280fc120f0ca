"""Fresh environments of the Pythons on this machine."""

import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")  # That releases are tested with.


def run(*command, folder, **variables):
    """Runs a command and returns its standard output.

    It sees none of the packages of the calling environment.

    Raises:
        SystemExit: If the command fails, with its output.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment | {"TF_CPP_MIN_LOG_LEVEL": "3"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(
            f"{done.stdout}\n{done.stderr}\nfailed: {' '.join(words)}"
        )
    return done.stdout


def find_pythons():
    """Returns `{"3.11": path, ...}` of the Pythons on PATH or of pyenv."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    found = {}
    for version in PYTHONS:
        candidates = [shutil.which(f"python{version}")]
        candidates += sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
        for path in filter(None, candidates):
            # pyenv puts programs on PATH that only say how to choose a version.
            works = subprocess.run(
                [path, "-c", "import ensurepip"], capture_output=True
            )
            if works.returncode == 0:
                found[version] = pathlib.Path(path)
                break
    return found


def make(python, folder, *packages):
    """Makes an environment with some packages and returns its Python."""
    run(python, "-m", "venv", "--clear", folder, folder=ROOT)
    path = folder / "bin" / "python"
    install = ("-m", "pip", "install", "--quiet", "--no-compile")
    run(path, *install, "--disable-pip-version-check", *packages, folder=ROOT)
    return path
