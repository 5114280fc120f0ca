"""Experiments as commands, as users run them."""

import json
import os
import signal
import subprocess
import sys
import time


class Command:
    """An experiment with some flags.

    Args:
        name: Name of its module in `tfp_refine.experiments`.
        *flags: Flags of every run.
    """

    def __init__(self, name, *flags):
        self._name, self._flags = name, flags
        self._words = [
            sys.executable, "-m", f"tfp_refine.experiments.{name}", *flags
        ]  # fmt: skip

    def run(self, *flags):
        """Runs it to its end, and returns the finished process."""
        return subprocess.run(
            [*self._words, *flags], capture_output=True, text=True, check=False
        )

    def run_on_a_cluster(self, *flags):
        """Runs it as the chief of a cluster on this machine, to its end."""
        launcher = [sys.executable, "-m", "tfp_refine.distribute.local"]
        return subprocess.run(
            [*launcher, "--", *self._words, "--distributed", *flags],
            capture_output=True,
            text=True,
            check=False,
        )

    def messages(self, cases):
        """Returns its objection to flags, for each case; nothing is run.

        Args:
            cases: List of lists of flags.

        Returns:
            messages: List of strings, and of `None` where nothing is wrong.
        """
        process = subprocess.run(
            [
                sys.executable, "-m", "tests.support.experiment_driver",
                self._name,
            ],
            input=json.dumps([[*self._flags, *case] for case in cases]),
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)

    def kill_when(self, condition, *flags):
        """Runs it, and kills it as soon as `condition()` is true."""
        process = subprocess.Popen(
            [*self._words, *flags],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 300
        while not condition():
            assert process.poll() is None, "It ended before it could be killed."
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def results(folder):
    """Reads `results.json`."""
    return json.loads((folder / "results.json").read_text())


def records(folder):
    """Reads the records in the folders below, without times and the like."""
    return {
        path.relative_to(folder): reproducible(json.loads(path.read_text()))
        for path in folder.glob("*/*.json")
    }


def reproducible(record):
    """Drops values that differ between runs: times, folders and digests."""
    if isinstance(record, dict):
        return {
            key: reproducible(value)
            for key, value in record.items()
            if "seconds" not in key and key not in ("output_dir", "crc32")
        }
    if isinstance(record, list):
        return [reproducible(value) for value in record]
    return record
