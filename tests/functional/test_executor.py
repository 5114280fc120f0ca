"""Batches computed here, or by workers that a coordinator pretends to have."""

import gc
import itertools
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.support import coordinator as coordinator_lib
from tfp_refine.functional import executor


@pytest.fixture
def coordinator(monkeypatch):
    return coordinator_lib.make(monkeypatch)


BATCHES = [(tf.constant(number),) for number in range(4)]


def _program(number, common, constants):
    return {"found": common * number + constants["a"]}


def _executor(where, coordinator):
    constants = ({"a": tf.constant(5)},)
    if where == "here":
        return executor.LocalExecutor(constants)
    return executor.ClusterExecutor(constants, coordinator)


@pytest.mark.parametrize("where", ["here", "workers"])
def test_batches_are_computed_in_their_order(where, coordinator):
    chosen = _executor(where, coordinator)
    assert chosen.num_workers == (1 if where == "here" else 2)
    for common in (10, 100):
        results = chosen.compute(_program, (tf.constant(common),), BATCHES)
        assert [int(result["found"]) for result in results] == [
            common * number + 5 for number in range(4)
        ]
    assert len(coordinator.functions) == (0 if where == "here" else 1)


def test_workers_are_counted_not_their_processors(coordinator):
    assert executor.count_workers(coordinator) == 2


def test_what_is_no_coordinator_is_told():
    with pytest.raises(ValueError, match="`coordinator` .*coordinator='no'"):
        executor.count_workers("no")


def test_workers_get_the_constants_once_and_let_go_of_them(coordinator):
    workers = _executor("workers", coordinator)
    for _ in range(3):
        list(workers.compute(_program, (tf.constant(1),), BATCHES))
        assert len(coordinator.data) == 1
    workers.close()
    gc.collect()
    assert len(coordinator.data) == 0


@pytest.mark.parametrize("lost", [False, True])
def test_each_variable_must_have_been_made_after_the_connection(lost):
    here = "/job:localhost/replica:0/task:0/device:CPU:0"
    model = types.SimpleNamespace(
        name="model",
        variables=[
            types.SimpleNamespace(value=types.SimpleNamespace(device=device))
            for device in (
                coordinator_lib.CHIEF,
                here if lost else coordinator_lib.CHIEF,
                "",
            )
        ],
    )
    if lost:
        with pytest.raises(ValueError, match="'model' was made before"):
            executor.check_reachable(model)
    else:
        executor.check_reachable(model)


def test_what_went_wrong_first_is_told(coordinator):
    def program(number, constant):
        del number, constant
        raise ValueError("this")

    workers = executor.ClusterExecutor((tf.constant(5),), coordinator)
    batches = [(tf.constant(0),), (tf.constant(1),)]
    with pytest.raises(ValueError, match="this"):
        list(workers.compute(program, (), batches))


@pytest.mark.parametrize(
    "error", [tf.errors.UnavailableError, tf.errors.InvalidArgumentError]
)
def test_results_of_workers_that_die_before_they_are_fetched_come_again(
    coordinator, error
):
    workers = executor.ClusterExecutor((tf.constant(5),), coordinator)
    coordinator.lost = [error, error]
    results = workers.compute(
        lambda number, factor: number * factor,
        (),
        [(tf.constant(1),), (tf.constant(2),)],
    )
    np.testing.assert_array_equal(list(results), [5, 10])
    assert coordinator.numbers_of_jobs == [2, 1, 1]


def test_other_errors_of_fetching_are_not_tried_again(coordinator):
    workers = executor.ClusterExecutor((tf.constant(5),), coordinator)
    coordinator.lost = [tf.errors.ResourceExhaustedError]
    with pytest.raises(tf.errors.ResourceExhaustedError, match="lost"):
        list(workers.compute(tf.add, (), [(tf.constant(1),)]))


def test_workers_that_stay_away_are_named(coordinator, monkeypatch):
    class Away:
        def get(self):
            threading.Event().wait()  # for ever

    monkeypatch.setattr(executor, "_PAUSE", 0.01)
    workers = executor.ClusterExecutor((tf.constant(5),), coordinator)
    workers.patience = 0.05
    workers._watch = types.SimpleNamespace(
        missing=lambda: next(missing), close=lambda: None
    )
    coordinator.schedule = lambda *args, **kwargs: Away()
    # Away, back for a moment, and away again for good.
    missing = itertools.chain(
        [["a:1"]], [[]] * 20, itertools.repeat(["a:1", "b:2"])
    )
    with pytest.raises(ConnectionError, match="no answer from a:1, b:2"):
        list(workers.compute(tf.add, (), [(tf.constant(1),)]))
