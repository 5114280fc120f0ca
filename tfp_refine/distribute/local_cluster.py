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

    Each is a separate process, as on separate machines, and ends when this
    process ends, for any reason.

    TensorFlow's processes, including the one that connects, listen on all
    network interfaces, whatever their addresses say, and ask for no password:
    whoever reaches their ports runs code as you. Run your program with `python
    -m tfp_refine.distribute.local` instead, which gives all of them a private
    network.

    Args:
        num_workers: Number of workers.
        allow_all_interfaces: Whether they may listen on all interfaces: set it
            to `True` where nobody else can reach this machine's ports, and
            nobody else uses it.

    Attributes:
        cluster: Addresses by job, for `connect`.

    Raises:
        ValueError: If an argument is invalid, or `allow_all_interfaces` is not
            `True`.

    Example:

    ```python
    with tfp_refine.distribute.LocalCluster(
        num_workers=2, allow_all_interfaces=True
    ) as local:
        coordinator = tfp_refine.distribute.connect(local.cluster)
        model = keras.models.load_model("trained.keras")
        ensemble = tfp_refine.refine(
            model, x_train, y_train, num_members=50, coordinator=coordinator
        )
    ```
    """

    def __init__(
        self, num_workers: int = 2, *, allow_all_interfaces: bool = False
    ) -> None:
        num_workers = _validation.positive_integer("num_workers", num_workers)
        if allow_all_interfaces is not True:
            raise ValueError(
                "TensorFlow's processes listen on all network interfaces, and "
                "whoever reaches their ports runs code as you. Run your "
                "program with `python -m tfp_refine.distribute.local`, which "
                "gives them a network of their own; or, where nobody can reach "
                "the ports of this machine, set `allow_all_interfaces=True`. "
                f"Received: allow_all_interfaces={allow_all_interfaces!r}"
            )
        self.num_workers = num_workers
        self.allow_all_interfaces = allow_all_interfaces
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
        """Starts or restarts a process.

        Args:
            job: `"worker"` or `"ps"`.
            index: Number of the process in its job, from 0.
        """
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
        """Kills a process, as the failure of its machine would.

        Args:
            job: As for `start`.
            index: As for `start`.
        """
        process = self._processes.pop((job, index), None)
        if process is not None:
            process.kill()
            process.wait()
            process.stdin.close()

    def tf_config(self, job: str, index: int) -> str:
        """Returns the `TF_CONFIG` of a process.

        Args:
            job: `"chief"`, `"worker"` or `"ps"`.
            index: As for `start`.

        Returns:
            tf_config: JSON of the cluster and of the process's place in it.
        """
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
