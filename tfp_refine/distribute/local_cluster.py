"""A cluster of processes on this machine."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from typing import Any

from tfp_refine import _validation
from tfp_refine.distribute import cluster_spec

_HOST = "127.0.0.1"


class LocalCluster(_validation.Shown, contextlib.AbstractContextManager):
    """Processes of a cluster on this machine: one parameter server, workers.

    Each is a process of its own, as on machines of their own, and ends with
    this one, however this one ends.

    Args:
        num_workers: Number of workers.

    Attributes:
        cluster: Addresses by job, for `connect`.

    Example:

    ```python
    with tfp_refine.distribute.LocalCluster(num_workers=2) as local:
        coordinator = tfp_refine.distribute.connect(local.cluster)
        ensemble = tfp_refine.refine(
            model, x_train, y_train, coordinator=coordinator
        )
    ```
    """

    def __init__(self, num_workers: int = 2) -> None:
        num_workers = _validation.positive_integer("num_workers", num_workers)
        self.num_workers = num_workers
        addresses = [f"{_HOST}:{port}" for port in _free_ports(2 + num_workers)]
        self.cluster = {
            "chief": addresses[:1],
            "ps": addresses[1:2],
            "worker": addresses[2:],
        }
        self._processes: dict[tuple[str, int], Any] = {}
        for job in ("ps", "worker"):
            for index in range(len(self.cluster[job])):
                self.start(job, index)

    def start(self, job: str, index: int) -> None:
        """Starts, or starts anew, process `index` of a job."""
        self.kill(job, index)
        self._processes[job, index] = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tfp_refine.distribute.serve",
                "--stop_with_stdin",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"TF_CONFIG": self.tf_config(job, index)},
            start_new_session=True,  # Ctrl-C is for this process.
        )

    def kill(self, job: str, index: int) -> None:
        """Kills process `index` of a job, as a machine that fails would."""
        process = self._processes.pop((job, index), None)
        if process is not None:
            process.kill()
            process.wait()
            process.stdin.close()

    def tf_config(self, job: str, index: int) -> str:
        """Returns the `TF_CONFIG` of a process, JSON."""
        return json.dumps(
            {
                "cluster": cluster_spec.check(self.cluster),
                "task": {"type": job, "index": index},
            }
        )

    def stop(self) -> None:
        """Stops all processes."""
        for job, index in list(self._processes):
            self.kill(job, index)

    def __exit__(self, *exception):
        self.stop()


def _free_ports(count):
    """Returns ports that no process listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((_HOST, 0))
        return [one.getsockname()[1] for one in sockets]
