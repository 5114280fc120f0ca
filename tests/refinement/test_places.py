"""Members computed by workers; without any, but a coordinator that pretends."""

import types

import numpy as np
import pytest
import tensorflow as tf

from tests.support import linear_gaussian
from tfp_refine.refinement import places
from tfp_refine.refinement import run as run_lib
from tfp_refine.refinement import settings as settings_lib

CHIEF = "/job:chief/replica:0/task:0/device:CPU:0"
DEVICES = (
    CHIEF,
    "/job:ps/replica:0/task:0/device:CPU:0",
    "/job:worker/replica:0/task:0/device:CPU:0",
    "/job:worker/replica:0/task:0/device:CPU:1",
    "/job:worker/replica:0/task:1/device:CPU:0",
)


class Job:
    """What a worker is to compute, and then what it has computed."""

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
    """Computes what it was told in this process, the last first."""

    def __new__(cls):
        return object.__new__(cls)

    def __init__(self):
        self._jobs = []
        self.numbers_of_jobs, self.functions = [], set()
        self.error, self.lost = None, []

    def __del__(self):
        pass  # there is nothing to stop

    def create_per_worker_dataset(self, dataset_fn):
        return dataset_fn()

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


@pytest.fixture
def coordinator(monkeypatch):
    """A coordinator of two workers, one with two processors."""
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda kind: [tf.config.LogicalDevice(name, kind) for name in DEVICES],
    )
    return Coordinator()


@pytest.fixture
def connected(monkeypatch):
    """Has models look as if they had been made after the connection."""
    monkeypatch.setattr(places, "check_reachable", lambda model: None)


def test_workers_get_equal_parts_of_the_members(coordinator):
    assert places.count_workers(coordinator) == 2
    check = settings_lib.Execution.check
    for num_members, size in [(1, 1), (4, 2), (5, 3)]:
        execution = check("auto", None, num_members, coordinator)
        assert execution.members_per_batch == size
    assert check("auto", 1, 5, coordinator).members_per_batch == 1


def test_workers_compute_what_this_process_does(coordinator, connected):
    problem = linear_gaussian.LinearGaussian()
    arguments = (problem.model(), problem.x, problem.y)
    options = {"steps": 5, "batch_size": 6, "variance_ratios": (0.7,)}
    expected = linear_gaussian.refine(*arguments, **options)
    found = linear_gaussian.refine(
        *arguments, coordinator=coordinator, **options
    )
    assert set(coordinator.numbers_of_jobs) == {2}  # two members, and one
    assert len(coordinator.functions) == 2  # steps and bounds, compiled once
    # A program within another may round otherwise.
    np.testing.assert_allclose(found._params, expected._params, rtol=1e-5)
    for name, value in expected.history.items():
        np.testing.assert_allclose(
            found.history[name], value, rtol=1e-5, err_msg=name
        )


def test_no_worker_waits_while_bounds_are_evaluated(
    coordinator, connected, monkeypatch
):
    monkeypatch.setattr(run_lib, "_EVALUATED_TOGETHER", 1)
    problem = linear_gaussian.LinearGaussian()
    linear_gaussian.refine(
        problem.model(), problem.x, problem.y, coordinator=coordinator,
        num_members=4, members_per_batch=1, steps=1, variance_ratios=(0.5,),
    )  # fmt: skip
    # Before and after, two members at a time; between, all of them.
    assert coordinator.numbers_of_jobs == [2, 2, 4, 4, 4, 4, 2, 2]


def test_a_model_from_before_the_connection_is_refused(coordinator):
    problem = linear_gaussian.LinearGaussian()
    with pytest.raises(ValueError, match="was made before.*Connect first"):
        linear_gaussian.refine(
            problem.model(), problem.x, problem.y, coordinator=coordinator
        )


@pytest.mark.parametrize("lost", [False, True])
def test_each_variable_must_have_been_made_after_the_connection(lost):
    here = "/job:localhost/replica:0/task:0/device:CPU:0"
    model = types.SimpleNamespace(
        name="model",
        variables=[
            types.SimpleNamespace(value=types.SimpleNamespace(device=device))
            for device in (CHIEF, here if lost else CHIEF, "")
        ],
    )
    if lost:
        with pytest.raises(ValueError, match="'model' was made before"):
            places.check_reachable(model)
    else:
        places.check_reachable(model)


def test_few_members_are_evaluated_by_all_workers(coordinator, connected):
    problem = linear_gaussian.LinearGaussian()
    linear_gaussian.refine(
        problem.model(), problem.x, problem.y, coordinator=coordinator,
        num_members=18, steps=1, variance_ratios=(0.5,),
    )  # fmt: skip
    # 8, 8 and 2 members before and after, where 9 are a worker's share.
    assert coordinator.numbers_of_jobs == [2] * 10


def test_workers_let_go_of_the_data_when_the_work_ends(
    coordinator, connected, monkeypatch
):
    made, original = [], places.Workers

    def make(*arguments):
        made.append(original(*arguments))
        return made[-1]

    monkeypatch.setattr(places, "Workers", make)
    problem = linear_gaussian.LinearGaussian()
    linear_gaussian.refine(
        problem.model(), problem.x, problem.y, coordinator=coordinator, steps=1
    )
    assert [place._constants for place in made] == [None]


def test_what_went_wrong_first_is_told(coordinator):
    def program(number, constant):
        del number, constant
        raise ValueError("this")

    workers = places.Workers((tf.constant(5),), coordinator)
    batches = [(tf.constant(0),), (tf.constant(1),)]
    with pytest.raises(ValueError, match="this"):
        list(workers.compute(program, (), batches))


@pytest.mark.parametrize(
    "error", [tf.errors.UnavailableError, tf.errors.InvalidArgumentError]
)
def test_results_of_workers_that_die_before_they_are_fetched_come_again(
    coordinator, error
):
    workers = places.Workers((tf.constant(5),), coordinator)
    coordinator.lost = [error, error]
    results = workers.compute(
        lambda number, factor: number * factor,
        (),
        [(tf.constant(1),), (tf.constant(2),)],
    )
    np.testing.assert_array_equal(list(results), [5, 10])
    assert coordinator.numbers_of_jobs == [2, 1, 1]


def test_other_errors_of_fetching_are_not_tried_again(coordinator):
    workers = places.Workers((tf.constant(5),), coordinator)
    coordinator.lost = [tf.errors.ResourceExhaustedError]
    with pytest.raises(tf.errors.ResourceExhaustedError, match="lost"):
        list(workers.compute(tf.add, (), [(tf.constant(1),)]))
