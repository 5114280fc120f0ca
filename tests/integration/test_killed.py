"""Work that is stopped in any way continues to the same posterior.

`TFP_REFINE_KILLS=20` stops each method 20 times; once by default.
"""

import functools
import os
import random
import signal
import time

import numpy as np
import pytest

from tests.support import resumable

pytestmark = pytest.mark.slow

METHODS = resumable.METHODS
# The refinement of a Laplace approximation starts again, from its file.
RESUMABLE = METHODS[:-1]

_KILLS = int(os.environ.get("TFP_REFINE_KILLS", "1"))


def run(method, folder, result):
    code, errors = resumable.Work(method, folder, result).end()
    assert code == 0, errors
    return np.load(result)


def wait_for(work, folder, pattern):
    deadline = time.monotonic() + 600
    while not list(folder.glob(pattern)):
        assert work.process.is_alive(), work.end()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Returns the result of a method without an interruption."""

    @functools.cache
    def result(method):
        return run(method, None, tmp_path_factory.mktemp(method) / "whole.npy")

    return result


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_method_continues_to_the_same_bits(
    method, whole, tmp_path, attacks
):
    rng = random.Random(method)
    kills = attempt = 0
    # An attempt is one folder: stopped until it gets to its end.
    while kills < _KILLS:
        folder, attempt = tmp_path / f"folder_{attempt}", attempt + 1
        result, sent = folder.with_suffix(".npy"), []
        while not result.exists():
            work = resumable.Work(method, folder, result)
            stopped = kills < _KILLS
            if stopped:
                wait_for(work, folder, "[!.]*")
                time.sleep(rng.expovariate(2.0) if kills else 0.0)
                sent.append(
                    rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
                    if kills
                    else signal.SIGKILL
                )
                work.send(sent[-1])
                attacks.tried(sent[-1].name, method)
                kills += 1
            code, errors = work.end()
            assert stopped or code == 0, errors
        np.testing.assert_array_equal(whole(method), np.load(result))
        assert not list(folder.glob(".*.tmp"))
        for one in sent:
            attacks.survived(one.name, method)


def test_a_second_process_on_the_folder_is_refused(whole, tmp_path):
    folder, result = tmp_path / "folder", tmp_path / "result.npy"
    first = resumable.Work("refine", folder, result)
    wait_for(first, folder, ".*.lock")
    first.send(signal.SIGSTOP)
    _, errors = resumable.Work("refine", folder, tmp_path / "second.npy").end()
    first.send(signal.SIGCONT)
    assert f"in use by another process, pid {first.process.pid}" in errors
    code, errors = first.end()
    assert code == 0, errors
    np.testing.assert_array_equal(whole("refine"), np.load(result))


@pytest.mark.parametrize("method", RESUMABLE)
def test_a_full_disk_is_named_and_work_continues(method, whole, tmp_path):
    folder, result = tmp_path / "folder", tmp_path / "result.npy"
    work = resumable.Work(method, folder, result, resumable.small_disk)
    code, errors = work.end()
    assert code == 1
    assert f"Cannot write '{folder}" in errors
    assert [path.suffix for path in folder.iterdir()] == [".lock"]
    np.testing.assert_array_equal(whole(method), run(method, folder, result))


@pytest.mark.parametrize("method", RESUMABLE)
@pytest.mark.parametrize(
    "before", [resumable.slow_disk, resumable.jumping_clock]
)
def test_slow_disks_and_clocks_that_jump_change_nothing(
    before, method, whole, tmp_path
):
    result = tmp_path / "result.npy"
    work = resumable.Work(method, tmp_path / "folder", result, before)
    code, errors = work.end()
    assert code == 0, errors
    np.testing.assert_array_equal(whole(method), np.load(result))


@pytest.mark.parametrize("method", RESUMABLE)
def test_a_read_only_disk_is_named(method, tmp_path):
    folder = tmp_path / "folder"
    work = resumable.Work(
        method, folder, tmp_path / "result.npy", resumable.read_only_disk
    )
    code, errors = work.end()
    assert code == 1
    assert "ValueError: `checkpoint_dir` must be a folder" in errors
    assert f"{folder}" in errors
    assert "Read-only file system" in errors
