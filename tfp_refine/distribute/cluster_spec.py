"""The addresses of a cluster, as TensorFlow's `TF_CONFIG` has them."""

import json
import os

_JOBS = ("chief", "worker", "ps")
_WANTED = (
    '`TF_CONFIG` must be JSON such as {"cluster": {"chief": ["host:port"], '
    '"worker": ["host:port", ...], "ps": ["host:port"]}, "task": {"type": '
    '"worker", "index": 0}}.'
)


def from_environment():
    """Reads `TF_CONFIG`: addresses by job, and this process' job and index."""
    text = os.environ.get("TF_CONFIG")
    if not text:
        raise ValueError(f"{_WANTED} It is not set.")
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        job, index = task["type"], int(task["index"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{_WANTED} Received: {text}") from error
    cluster = check(cluster)
    if job not in cluster or not 0 <= index < len(cluster[job]):
        raise ValueError(
            f"The task of `TF_CONFIG` must be one of its cluster. Received: "
            f"task {index} of job {job!r}, cluster={cluster}"
        )
    return cluster, job, index


def check(cluster):
    """Checks the addresses of a cluster by job; returns lists of strings."""
    if not isinstance(cluster, dict) or set(cluster) != set(_JOBS):
        raise ValueError(
            f"A cluster must have addresses of the jobs {list(_JOBS)}: one "
            "chief, some workers, and at least one parameter server ('ps'). "
            f"Received: cluster={cluster!r}"
        )
    for job, addresses in cluster.items():
        if (
            not isinstance(addresses, list | tuple)
            or not addresses
            or not all(_is_address(address) for address in addresses)
        ):
            raise ValueError(
                f"The addresses of job {job!r} must be a list of 'host:port'. "
                f"Received: {addresses!r}"
            )
    if len(cluster["chief"]) != 1:
        raise ValueError(
            f"A cluster has one chief. Received: chief={cluster['chief']!r}"
        )
    return {job: list(addresses) for job, addresses in cluster.items()}


def fail_fast():
    """Makes this process notice at once that another one is gone.

    Call it before connecting to any process.
    """
    os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")


def _is_address(address):
    if not isinstance(address, str):
        return False
    host, _, port = address.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 2**16
