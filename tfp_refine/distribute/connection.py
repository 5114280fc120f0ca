"""The way from a chief to its cluster."""

import time
from typing import Any

import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.distribute import cluster_spec
from tfp_refine.distribute import watch


def connect(
    cluster: Any = None, timeout: float = 60.0
) -> tf.distribute.coordinator.ClusterCoordinator:
    """Connects this process, as the chief, to the workers of a cluster.

    A process connects once, to one cluster, and before it computes anything, as
    TensorFlow loses the variables that it had before: first connect, then make
    or load a model, and train it. On each other machine of the
    cluster `python -m tfp_refine.distribute.serve` runs, with a `TF_CONFIG` of
    its own; `LocalCluster` starts these processes on this machine.

    A cluster trusts its network: each of its processes, this one too, listens
    on all interfaces of its machine, without a password and unencrypted.
    Whoever reaches one of its ports runs code, and reads and writes files, as
    you. Keep the ports inside a network where you trust everyone.

    Args:
        cluster: Dict of lists of addresses `"host:port"`, of the jobs
            `"chief"` (one), `"worker"` and `"ps"` (parameter servers; one is
            enough, and has nothing to do). Defaults to that of the environment
            variable `TF_CONFIG`.
        timeout: Seconds to wait for the other processes.

    Returns:
        coordinator: `tf.distribute.coordinator.ClusterCoordinator`, for
            `tfp_refine.refine(..., coordinator=coordinator)`.

    Raises:
        ValueError: If the cluster is not described well, or this process is
            not its chief.
        RuntimeError: If TensorFlow has been used before.
        TimeoutError: If a process does not answer.
        ConnectionError: If this process cannot serve at the chief's address.

    Example:

    ```python
    coordinator = tfp_refine.distribute.connect()
    model = keras.models.load_model("trained.keras")
    ensemble = tfp_refine.refine(
        model, x_train, y_train, num_members=50, coordinator=coordinator
    )
    ```
    """
    timeout = _validation.positive("timeout", timeout)
    if cluster is None:
        cluster, job, _ = cluster_spec.from_environment()
        if job != "chief":
            raise ValueError(
                "Only the chief connects to the others. Received: a TF_CONFIG "
                f"of job {job!r}, which `python -m tfp_refine.distribute.serve`"
                " is for"
            )
    cluster = cluster_spec.check(cluster)
    _check_unused()
    deadline = time.monotonic() + timeout
    for job in ("ps", "worker"):
        for index, address in enumerate(cluster[job]):
            _await(job, index, address, deadline, timeout)
    _check_unused()  # others may have used it while this waited
    cluster_spec.fail_fast()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster),
        task_type="chief",
        task_id=0,
        rpc_layer="grpc",
    )
    try:
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        return tf.distribute.coordinator.ClusterCoordinator(strategy)
    except tf.errors.OpError as error:
        raise ConnectionError(
            f"The chief cannot serve at {cluster['chief'][0]}, where workers "
            "answer it: is the address of this machine, and is the port free? "
            f"({error.message})"
        ) from error


def _check_unused():
    """Refuses to lose variables."""
    processor = tf.config.list_physical_devices("CPU")[0]
    devices = tf.config.get_logical_device_configuration(processor)
    if devices is None:
        devices = [tf.config.LogicalDeviceConfiguration()]  # as without
    try:
        # Refused once TensorFlow is in use, if it is another than there is.
        for count in (len(devices) + 1, len(devices)):
            tf.config.set_logical_device_configuration(
                processor, (devices * 2)[:count]
            )
    except RuntimeError as error:
        raise RuntimeError(
            "`connect` must be called once, and before TensorFlow computes "
            "anything: variables that were made before would be lost. Call it "
            "first in your program; a model that is trained already can be "
            "saved by another program, and loaded after it."
        ) from error


def _await(job, index, address, deadline, timeout):
    """Waits until a process answers, not only its machine."""
    import grpc  # as TensorFlow does, which requires it

    channel = watch.open_channel(address)
    try:
        left = max(deadline - time.monotonic(), 0.1)
        grpc.channel_ready_future(channel).result(timeout=left)
    except grpc.FutureTimeoutError as error:
        raise TimeoutError(
            f"No answer from {job} {index} at {address} within {timeout:g} "
            "seconds. Does `python -m tfp_refine.distribute.serve` run there, "
            "with this cluster in its TF_CONFIG, and can this machine reach "
            "it?"
        ) from error
    finally:
        channel.close()
