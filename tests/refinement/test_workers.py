"""Refinement by workers; without any, but a coordinator that pretends."""

import gc

import numpy as np
import pytest

from tests.support import coordinator as coordinator_lib
from tests.support import linear_gaussian
from tfp_refine.functional import executor


@pytest.fixture
def coordinator(monkeypatch):
    return coordinator_lib.make(monkeypatch)


@pytest.fixture
def problem():
    return linear_gaussian.LinearGaussian()


def test_workers_get_equal_parts_of_the_members(coordinator):
    def batch_of(num_members, members_per_batch=None):
        return linear_gaussian.settings(
            num_members=num_members,
            members_per_batch=members_per_batch,
            coordinator=coordinator,
        ).members_at_a_time(1)

    assert [batch_of(count) for count in (1, 4, 5)] == [1, 2, 3]
    assert batch_of(5, 1) == 1


@pytest.mark.slow
def test_workers_compute_what_this_process_does(
    coordinator, problem, monkeypatch
):
    # As if the model had been made after the connection.
    monkeypatch.setattr(executor, "check_reachable", lambda model: None)
    arguments = (problem.model(), problem.x, problem.y)
    options = {"steps": 5, "batch_size": 6, "variance_ratios": (0.7,)}
    expected = linear_gaussian.refine(*arguments, **options)
    found = linear_gaussian.refine(
        *arguments, coordinator=coordinator, **options
    )
    assert set(coordinator.numbers_of_jobs) == {2}  # two members, and one
    assert len(coordinator.functions) == 2  # steps and bounds, compiled once
    # A program within another may round otherwise.
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-5)
    linear_gaussian.assert_same(found.history, expected.history, 1e-5)
    gc.collect()
    assert len(coordinator.data) == 0


def test_a_model_from_before_the_connection_is_refused(coordinator, problem):
    with pytest.raises(ValueError, match="was made before.*Connect first"):
        linear_gaussian.refine(
            problem.model(), problem.x, problem.y, coordinator=coordinator
        )


@pytest.mark.slow
def test_few_members_are_evaluated_by_all_workers(coordinator, problem):
    work = linear_gaussian.Work(
        problem.model(), problem.x, problem.y, num_members=9, steps=1
    )
    workers = executor.ClusterExecutor(work.constants, coordinator)
    work.finish(work.engine(size=9, where=workers))
    # 8 and 1 before and after, where all 9 steps are a worker's share.
    assert coordinator.numbers_of_jobs == [2, 1, 1, 2, 2, 2, 1]
