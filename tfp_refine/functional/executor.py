"""Executors of members: this process, or the workers of a cluster."""

import functools
import threading
import time
from concurrent import futures

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import atomic_function

from tfp_refine.distribute import watch

# Errors of fetching a result from a worker that has died since, or that has
# become another process.
_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.InvalidArgumentError,
    tf.errors.UnavailableError,
)
# Seconds between two looks at the workers that a result needs.
_PAUSE = 1.0


class LocalExecutor:
    """Computes batches of members in this process, one after another.

    `constants` are the last argument of each program, and never change.
    """

    num_workers = 1

    def __init__(self, constants):
        self._constants = constants

    def compute(self, program, common, batches):
        """Yields `program(*batch, *common, *constants)` of each batch."""
        for batch in batches:
            yield program(*batch, *common, *self._constants)

    def close(self):
        """Does nothing: no other process holds constants."""


class ClusterExecutor:
    """Computes batches of members on the workers of a cluster.

    A worker gets the constants once, and then for each batch its members'
    state. The batch of a worker that dies is given to another: the same program
    with the same arguments, and so the same result. If all die, the work waits
    until all are back, as TensorFlow does, but for `patience` seconds only; and
    no longer for one that is suspended.
    """

    patience = 600.0

    def __init__(self, constants, coordinator):
        self.num_workers = count_workers(coordinator)
        self._coordinator = coordinator
        # The public `strategy.cluster_resolver` is `None` of such a strategy.
        cluster = coordinator.strategy._cluster_resolver.cluster_spec()
        self._watch = watch.Watch(cluster.as_dict()["worker"])
        self._jobs = {}
        # A data set of one element, which stays on the worker that reads it.
        leaves = tuple(tf.nest.flatten(constants))
        self._structure = tf.nest.map_structure(lambda _: 0, constants)
        dataset = coordinator.create_per_worker_dataset(
            lambda: tf.data.Dataset.from_tensors(leaves).repeat()
        )
        self._constants = iter(dataset)

    def compute(self, program, common, batches):
        """Calls a program for each batch, as `LocalExecutor.compute`.

        All are sent off at once; their results come as they are ready.
        """
        if program not in self._jobs:
            self._jobs[program] = self._job(program)
        tasks = []
        for batch in batches:
            arguments = tf.nest.map_structure(
                tf.convert_to_tensor, (*batch, *common)
            )
            schedule = functools.partial(
                self._coordinator.schedule,
                self._jobs[program],
                args=(self._constants, *arguments),
            )
            tasks.append((schedule, schedule()))
        for schedule, result in tasks:
            yield self._wait(schedule, result)

    def _wait(self, schedule, result):
        """Waits for a result, and tries again if it was lost."""
        while True:
            try:
                return self._patiently(result.get)
            except _LOST:
                # Raises the first error.
                self._patiently(self._coordinator.join)
            # Its worker died when it had computed it, before it was fetched.
            result = schedule()

    def _patiently(self, function):
        """Calls a function, and leaves it if the workers it needs stay away."""
        done = futures.Future()

        def call():
            try:
                done.set_result(function())
            except BaseException as error:
                done.set_exception(error)

        # Not of a pool, for whose threads Python waits at its end.
        threading.Thread(target=call, daemon=True).start()
        away_since = None
        while not futures.wait([done], timeout=_PAUSE).done:
            missing = self._watch.missing()
            away_since = missing and (away_since or time.monotonic())
            if missing and time.monotonic() - away_since > self.patience:
                _keep_functions()
                raise ConnectionError(
                    "The cluster lost all of its workers, or waits for one "
                    f"that is suspended or cut off. After {self.patience:g} "
                    f"seconds there is no answer from {', '.join(missing)}. "
                    "With `checkpoint_dir`, the same program continues from "
                    "its last save, on another cluster too."
                )
        self._watch.recovered()
        return done.result()

    def close(self):
        """Releases the constants that the workers hold."""
        self._constants = None
        self._watch.close()

    def _job(self, program):
        # Workers may differ in how many members they get.
        @tf.function(autograph=False, reduce_retracing=True)
        def job(constants, *arguments):
            constants = tf.nest.pack_sequence_as(
                self._structure, constants.get_next()
            )
            return program(*arguments, *constants)

        return job


def _keep_functions():
    """Keeps TensorFlow from deleting functions that there are, for good.

    It would wait for every worker, so that this process could not even end.
    """
    for key in list(atomic_function.RUNTIME_FUNCTION_REFS):
        atomic_function.RUNTIME_FUNCTION_REFS[key] += 1


def count_workers(coordinator):
    """Returns the number of workers of a `ClusterCoordinator`."""
    if not isinstance(
        coordinator, tf.distribute.coordinator.ClusterCoordinator
    ):
        raise ValueError(
            "`coordinator` must be a "
            "tf.distribute.coordinator.ClusterCoordinator, such as "
            "`tfp_refine.distribute.connect()` returns. Received: coordinator="
            f"{coordinator!r}"
        )
    devices = tf.config.list_logical_devices("CPU")
    tasks = {device.name.partition("/device:")[0] for device in devices}
    return sum("/job:worker/" in task for task in tasks)


def check_reachable(model):
    """Raises a `ValueError` if a model is older than the cluster connection."""
    if any(
        "/job:localhost" in getattr(v.value, "device", "")
        for v in model.variables
    ):
        raise ValueError(
            f"The model '{model.name}' was made before this process connected "
            "to the cluster, and TensorFlow has lost its variables. Connect "
            "first, then make or load the model."
        )
