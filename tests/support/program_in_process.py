"""Runs the program of an experiment in this process."""

import contextlib
import runpy
import signal
import sys
from unittest import mock


def run(experiment: str, *flags: str) -> int:
    """Runs `python -m tfp_refine.experiments.EXPERIMENT`; returns its status.

    Changes of the program to the process, answers to signals, are undone.
    """
    with contextlib.ExitStack() as undo:
        for number in (signal.SIGINT, signal.SIGTERM):
            undo.callback(signal.signal, number, signal.getsignal(number))
        undo.enter_context(mock.patch.object(sys, "argv", [experiment, *flags]))
        try:
            runpy.run_module(
                f"tfp_refine.experiments.{experiment}", run_name="__main__"
            )
        except SystemExit as ended:
            return ended.code or 0
    raise AssertionError("a program exits")
