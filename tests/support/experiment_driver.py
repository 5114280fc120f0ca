"""Checks many flags of one experiment in one process: imports are slow.

  python -m tests.support.experiment_driver NAME < cases.json

Reads a list of lists of flags, and writes the error of each: a list of
messages, or of `null` where nothing was. Nothing is run.
"""

import importlib
import json
import sys

from absl import flags
from absl.testing import flagsaver


def main():
    """Reads the cases and writes the messages."""
    module = importlib.import_module(f"tfp_refine.experiments.{sys.argv[1]}")
    messages = []
    for case in json.load(sys.stdin):
        with flagsaver.flagsaver():
            messages.append(_message(module, case))
    json.dump(messages, sys.stdout)


def _message(module, arguments):
    try:
        flags.FLAGS([sys.argv[0], *arguments])
        module.make()
    except (ValueError, OSError, flags.Error) as error:
        return str(error)
    return None


if __name__ == "__main__":
    main()
