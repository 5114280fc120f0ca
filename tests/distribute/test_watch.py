"""Servers that come and go, in place of workers."""

import signal
import subprocess
import sys
import time
from concurrent import futures

import grpc
import pytest

from tfp_refine.distribute import watch


class Server:
    """A server that can be stopped, and started again at its address."""

    def __init__(self):
        self._port = 0
        self.start()
        self.address = f"127.0.0.1:{self._port}"

    def start(self):
        self._server = grpc.server(futures.ThreadPoolExecutor(1))
        address = f"127.0.0.1:{self._port}"
        self._port = self._server.add_insecure_port(address)
        self._server.start()

    def stop(self):
        self._server.stop(None).wait()


@pytest.fixture
def servers():
    servers = [Server(), Server()]
    yield servers
    for server in servers:
        server.stop()


@pytest.fixture
def workers(servers):
    workers = watch.Watch([server.address for server in servers])
    yield workers
    workers.close()


_SERVE = """
import grpc, threading
from concurrent import futures
server = grpc.server(futures.ThreadPoolExecutor(1))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
threading.Event().wait()
"""


@pytest.mark.parametrize("answered", [True, False])
def test_a_process_that_is_suspended_is_missed_beside_another(
    servers, monkeypatch, answered
):
    monkeypatch.setattr(watch, "_TO_ANSWER", 0.5)
    monkeypatch.setattr(watch, "_BETWEEN", 0.0)
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE], stdout=subprocess.PIPE, text=True
    ) as process:
        address = f"127.0.0.1:{process.stdout.readline().strip()}"
        if not answered:
            process.send_signal(signal.SIGSTOP)
        workers = watch.Watch([servers[0].address, address])
        answering(workers, 1 + answered)
        process.send_signal(signal.SIGSTOP)
        try:
            assert workers.missing() == [address]
        finally:
            process.kill()
    assert workers.missing() == []  # it has ended
    workers.close()


def wait_for(condition):
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def answering(workers, count):
    wait_for(lambda: len(workers._answering) == count)


def test_nobody_is_missed_as_long_as_one_has_been_there_all_the_time(
    servers, workers
):
    answering(workers, 2)
    servers[0].stop()
    answering(workers, 1)
    assert workers.missing() == []
    servers[0].start()
    answering(workers, 2)
    servers[0].stop()
    answering(workers, 1)
    assert workers.missing() == []


@pytest.mark.slow
def test_all_are_missed_that_are_away_when_none_is_left(servers, workers):
    answering(workers, 2)
    for server in servers:
        server.stop()
    answering(workers, 0)
    assert workers.missing() == [server.address for server in servers]
    servers[1].start()
    answering(workers, 1)
    assert workers.missing() == [servers[0].address]
    servers[0].start()
    answering(workers, 2)
    assert workers.missing() == []


def test_workers_that_are_back_at_work_are_not_missed(servers, workers):
    answering(workers, 2)
    for server in servers:
        server.stop()
    answering(workers, 0)
    for server in servers:
        server.start()
    answering(workers, 2)
    workers.recovered()
    servers[0].stop()
    answering(workers, 1)
    assert workers.missing() == []


def test_workers_that_never_answered_are_missed(servers):
    servers[0].stop()
    workers = watch.Watch([servers[0].address])
    time.sleep(0.1)
    assert workers.missing() == [servers[0].address]
    servers[0].start()
    answering(workers, 1)
    assert workers.missing() == []
    workers.close()
