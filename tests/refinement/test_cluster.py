"""Refinement by the workers of a cluster, whose processes die."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.support import cluster_chief
from tfp_refine import distribute
from tfp_refine.functional import files

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).parents[2]
# Seconds until something is taken to hang: machines may be busy.
PATIENCE = 300


class Chief:
    """The process of a chief."""

    def __init__(self, folder, cluster=None, where="cluster", start="layers"):
        self.path = folder / "ensemble.npz"
        self.saved = folder / "work" / "refinement.ckpt"
        self._began_with = self._saved_at()
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        if cluster is not None:
            environment["TF_CONFIG"] = cluster.tf_config("chief", 0)
        self.process = subprocess.Popen(
            [
                sys.executable,
                cluster_chief.__file__,
                str(self.saved.parent),
                str(self.path),
                start,
                "here" if cluster is None else where,
            ],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_a_save(self):
        deadline = time.monotonic() + PATIENCE
        while self._saved_at() == self._began_with:
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return self.auxiliary()

    def _saved_at(self):
        return self.saved.stat().st_mtime_ns if self.saved.exists() else None

    def auxiliary(self):
        return int(self.state()["auxiliary"])

    def state(self):
        _, arrays, _ = files.read(self.saved)
        return arrays

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def result(self):
        _, messages = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, messages
        with np.load(self.path) as arrays:
            return dict(arrays)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The result without a cluster."""
    return Chief(tmp_path_factory.mktemp("here")).result()


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    with distribute.LocalCluster(2, allow_all_interfaces=True) as cluster:
        yield cluster


def assert_same(arrays, others):
    assert set(arrays) == set(others)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_killed_worker_does_not_change_the_ensemble(
    cluster, expected, tmp_path, restarted
):
    chief = Chief(tmp_path, cluster)
    assert chief.wait_for_a_save() < 5
    cluster.kill("worker", 1)
    if restarted:
        cluster.start("worker", 1)
    assert chief.process.poll() is None  # not done before
    assert_same(chief.result(), expected)


def test_correlated_weights_are_refined_alike_whatever_dies(cluster, tmp_path):
    expected = Chief(tmp_path / "here", start="laplace").result()
    chief = Chief(tmp_path / "cluster", cluster, start="laplace")
    chief.wait_for_a_save()
    cluster.kill("worker", 1)
    assert chief.process.poll() is None  # not done before
    chief.kill()
    again = Chief(tmp_path / "cluster", cluster, start="laplace")
    cluster.start("worker", 1)
    assert_same(again.result(), expected)


def test_a_killed_chief_goes_on_where_it_was(cluster, expected, tmp_path):
    chief = Chief(tmp_path, cluster)
    chief.wait_for_a_save()
    chief.kill()
    assert 1 <= chief.auxiliary() < 5
    assert not chief.path.exists()
    again = Chief(tmp_path, cluster)
    # The first thing that it saves is not of the first auxiliary variable.
    assert again.wait_for_a_save() > 1
    assert_same(again.result(), expected)


def test_members_that_were_ahead_when_the_chief_was_killed_are_kept(
    cluster, expected, tmp_path
):
    for _ in range(20):  # until it is killed at such a moment
        chief = Chief(tmp_path, cluster, where="member_by_member")
        chief.wait_for_a_save()
        chief.kill()
        ahead = chief.state()["ahead"]
        if np.any(ahead):
            break
    assert np.any(ahead)
    assert_same(Chief(tmp_path, cluster).result(), expected)


def test_without_any_worker_the_work_waits_for_all(cluster, expected, tmp_path):
    chief = Chief(tmp_path, cluster)
    chief.wait_for_a_save()
    for index in (0, 1):
        cluster.kill("worker", index)
    time.sleep(5.0)
    assert chief.process.poll() is None
    cluster.start("worker", 0)
    cluster.start("worker", 1)
    assert_same(chief.result(), expected)


@pytest.mark.parametrize("restarted", [False, True])
def test_workers_that_are_gone_for_good_are_named(
    cluster, expected, tmp_path, restarted
):
    chief = Chief(tmp_path, cluster, where="impatient")
    chief.wait_for_a_save()
    for index in (0, 1):
        cluster.kill("worker", index)
    if restarted:  # which is of no use, as TensorFlow waits for both
        cluster.start("worker", 1)
    _, messages = chief.process.communicate(timeout=PATIENCE)
    assert chief.process.returncode == 1
    away = cluster.cluster["worker"][: 1 if restarted else 2]
    assert f"no answer from {', '.join(away)}. With" in messages
    for index in (0, 1):
        cluster.start("worker", index)
    assert_same(Chief(tmp_path, cluster).result(), expected)


def test_a_suspended_worker_beside_a_healthy_one_is_named(
    cluster, expected, tmp_path
):
    chief = Chief(tmp_path, cluster, where="impatient")
    chief.wait_for_a_save()
    suspended = cluster._processes["worker", 1]
    suspended.send_signal(signal.SIGSTOP)
    try:
        _, messages = chief.process.communicate(timeout=PATIENCE)
    finally:
        suspended.send_signal(signal.SIGCONT)
    assert chief.process.returncode == 1
    assert f"no answer from {cluster.cluster['worker'][1]}. With" in messages
    assert_same(Chief(tmp_path, cluster).result(), expected)


def test_a_worker_that_is_suspended_for_a_while_is_waited_for(
    cluster, expected, tmp_path
):
    chief = Chief(tmp_path, cluster)
    chief.wait_for_a_save()
    for _ in range(3):
        cluster._processes["worker", 1].send_signal(signal.SIGSTOP)
        time.sleep(2.0)
        cluster._processes["worker", 1].send_signal(signal.SIGCONT)
        time.sleep(0.5)
    assert_same(chief.result(), expected)
