"""Processes on this machine, most of them imagined."""

import io
import json
import os

import pytest

from tfp_refine import distribute
from tfp_refine.distribute import local_cluster


class Process:
    """A process that only notes its calls."""

    def __init__(self, command, env, stdin, stdout, start_new_session):
        assert command[-1] == "--stop_with_stdin"
        self.config = json.loads(env["TF_CONFIG"])
        self.rest = {k: v for k, v in env.items() if k != "TF_CONFIG"}
        self.is_killed = False
        self.stdin = io.BytesIO()

    def kill(self):
        self.is_killed = True

    def wait(self):
        assert self.is_killed


@pytest.fixture
def started(monkeypatch):
    """All processes that are started, in their order."""
    processes = []

    def start(*arguments, **options):
        processes.append(Process(*arguments, **options))
        return processes[-1]

    monkeypatch.setattr(local_cluster.subprocess, "Popen", start)
    return processes


def test_each_process_is_told_which_it_is_and_stopped(started, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with distribute.LocalCluster(2, allow_all_interfaces=True) as cluster:
        assert repr(cluster) == (
            "LocalCluster(num_workers=2, allow_all_interfaces=True)"
        )
        addresses = sum(cluster.cluster.values(), [])
        assert len(set(addresses)) == 4
        assert [process.config["task"] for process in started] == [
            {"type": "ps", "index": 0},
            {"type": "worker", "index": 0},
            {"type": "worker", "index": 1},
        ]
        for process in started:
            assert process.config["cluster"] == cluster.cluster
            assert process.rest == os.environ
            assert not process.is_killed
    for process in started:
        assert process.is_killed
        assert process.stdin.closed


@pytest.mark.parametrize("allowed", [False, None, 1])
def test_processes_that_others_can_reach_are_started_on_request(
    started, allowed
):
    with pytest.raises(ValueError, match=f"allow_all_interfaces={allowed!r}"):
        distribute.LocalCluster(num_workers=1, allow_all_interfaces=allowed)
    assert not started


def test_a_process_that_is_started_anew_takes_the_place_of_the_old(started):
    with distribute.LocalCluster(1, allow_all_interfaces=True) as cluster:
        _, old = started
        cluster.start("worker", 0)
        assert old.is_killed
        *_, new = started
        assert new.config == old.config
        cluster.kill("worker", 0)
        cluster.kill("worker", 0)  # is gone, and stays so
        assert new.is_killed
    assert len(started) == 3
