"""Runs one process of a cluster, which computes the work that its chief sends.

The environment variable `TF_CONFIG` says which:

    export TF_CONFIG='{"task": {"type": "worker", "index": 0}, "cluster": {
        "chief": ["10.0.0.1:5000"], "ps": ["10.0.0.1:5001"],
        "worker": ["10.0.0.2:5000", "10.0.0.3:5000"]}}'
    python -m tfp_refine.distribute.serve

Whoever reaches its port runs code as you: let nobody but the cluster do so.

It runs until it is killed; with `--stop_with_stdin` until its standard input
ends. A worker that was killed can be started again at any time: others have
done its work meanwhile.
"""

import os
import sys
import threading

import tensorflow as tf
from absl import app
from absl import flags
from absl import logging

from tfp_refine.distribute import cluster_spec

_STOP_WITH_STDIN = flags.DEFINE_bool(
    "stop_with_stdin",
    False,
    "Whether to stop when the standard input ends, as it does when the process "
    "that holds its other end is gone.",
)


def main(argv):
    """Serves until it is stopped."""
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}")
    try:
        cluster, job, index = cluster_spec.from_environment()
    except ValueError as error:
        raise app.UsageError(str(error)) from error
    if job == "chief":
        raise app.UsageError(
            "The chief runs your program, which calls "
            "`tfp_refine.distribute.connect()`."
        )
    cluster_spec.fail_fast()
    if _STOP_WITH_STDIN.value:
        threading.Thread(target=_stop_with_stdin, daemon=True).start()
    try:
        server = tf.distribute.Server(
            tf.train.ClusterSpec(cluster),
            job_name=job,
            task_index=index,
            protocol="grpc",
        )
    except tf.errors.OpError as error:
        sys.exit(
            f"{job} {index} cannot serve at {cluster[job][index]}: is the "
            "address of this machine, and is the port free? "
            f"({error.message})"
        )
    logging.info("%s %d serves at %s", job, index, cluster[job][index])
    server.join()


def _stop_with_stdin():
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    app.run(main)
