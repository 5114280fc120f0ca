"""A coordinator of workers that pretends: there is this process alone."""

import types
import weakref

import tensorflow as tf

CHIEF = "/job:chief/replica:0/task:0/device:CPU:0"
DEVICES = (
    CHIEF,
    "/job:ps/replica:0/task:0/device:CPU:0",
    "/job:worker/replica:0/task:0/device:CPU:0",
    "/job:worker/replica:0/task:0/device:CPU:1",
    "/job:worker/replica:0/task:1/device:CPU:0",
)


def make(monkeypatch):
    """Returns a coordinator of two workers, one with two processors."""
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda kind: [tf.config.LogicalDevice(name, kind) for name in DEVICES],
    )
    return Coordinator()


class PerWorker:
    """Data of each worker, which is this process."""

    def __init__(self, coordinator, dataset):
        self._coordinator, self._dataset = coordinator, dataset

    def __iter__(self):
        iterator = iter(self._dataset)
        self._coordinator.data.add(iterator)
        return iterator


class Job:
    """Work of a worker, and then its result."""

    def __init__(self, coordinator, function, args):
        self._coordinator = coordinator
        self._function, self._args = function, args

    def compute(self):
        try:
            self._result = self._function(*self._args)
        except ValueError as error:
            self._coordinator.error = error

    def get(self):
        self._coordinator.compute()
        if self._coordinator.error is not None:
            raise tf.errors.CancelledError(None, None, "cancelled")
        if self._coordinator.lost:
            raise self._coordinator.lost.pop()(None, None, "lost")
        return self._result


class Coordinator(tf.distribute.coordinator.ClusterCoordinator):
    """Computes its tasks in this process, the last first."""

    def __new__(cls):
        return object.__new__(cls)

    def __init__(self):
        self._jobs = []
        self.numbers_of_jobs, self.functions = [], set()
        spec = tf.train.ClusterSpec({"worker": []})
        self._strategy = types.SimpleNamespace(
            _cluster_resolver=types.SimpleNamespace(cluster_spec=lambda: spec)
        )
        self.error, self.lost = None, []
        self.data = weakref.WeakSet()  # data that workers hold

    def __del__(self):
        pass  # there is nothing to stop

    def create_per_worker_dataset(self, dataset_fn):
        return PerWorker(self, dataset_fn())

    def schedule(self, fn, args=None, kwargs=None):
        self.functions.add(fn)
        self._jobs.append(Job(self, fn, args))
        return self._jobs[-1]

    def compute(self):
        if self._jobs:
            self.numbers_of_jobs.append(len(self._jobs))
        while self._jobs:
            self._jobs.pop().compute()

    def join(self):
        self.compute()
        if self.error is not None:
            raise self.error
