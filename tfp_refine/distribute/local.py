"""Runs a program of yours as the chief of a cluster on this machine.

    python -m tfp_refine.distribute.local --num_workers=2 -- python mine.py

The program calls `tfp_refine.distribute.connect()`. The cluster starts before
it and stops with it.
"""

import os
import signal
import subprocess
import sys

from absl import app
from absl import flags

from tfp_refine.distribute import local_cluster

_NUM_WORKERS = flags.DEFINE_integer(
    "num_workers", 2, "Number of workers, each a process.", lower_bound=1
)


def main(argv):
    """Starts the cluster, and runs the program."""
    command = argv[1:]
    if not command:
        raise app.UsageError(
            "Say which program is to run, after `--`: python my_program.py"
        )
    with local_cluster.LocalCluster(_NUM_WORKERS.value) as cluster:
        tf_config = cluster.tf_config("chief", 0)
        # Ctrl-C reaches the program as well, which ends in its own time.
        signal.signal(signal.SIGINT, lambda *_: None)
        try:
            program = subprocess.Popen(
                command, env=os.environ | {"TF_CONFIG": tf_config}
            )
        except OSError as error:
            raise app.UsageError(f"{command[0]!r}: {error}") from error
        signal.signal(signal.SIGTERM, lambda *_: program.terminate())
        returncode = program.wait()
    sys.exit(returncode)


if __name__ == "__main__":
    app.run(main)
