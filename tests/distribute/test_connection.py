"""Messages to a chief; nothing here connects, as a process does it once."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
from concurrent import futures

import grpc
import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr
from tfp_refine.distribute import connection

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def unused(monkeypatch):
    """Has TensorFlow look as if nothing had used it."""
    monkeypatch.setattr(connection, "_check_unused", lambda: None)


@contextlib.contextmanager
def listening():
    """Opens a port that accepts and then says nothing, as a hung process."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def cluster_at(port):
    address = f"127.0.0.1:{port}"
    return {"chief": [address], "ps": [address], "worker": [address]}


def test_an_address_where_nobody_listens_is_told(unused):
    with listening() as port:
        pass  # and now nobody
    begin = time.monotonic()
    with pytest.raises(
        TimeoutError,
        match=rf"No answer from ps 0 at 127.0.0.1:{port} within 0.5 seconds",
    ):
        tfr.distribute.connect(cluster_at(port), timeout=0.5)
    assert time.monotonic() - begin < 30.0


def test_a_process_that_hangs_is_told(unused):
    with listening() as port, pytest.raises(TimeoutError, match="No answer"):
        tfr.distribute.connect(cluster_at(port), timeout=0.5)


@contextlib.contextmanager
def answering():
    """Opens a port at which a process answers."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


@pytest.mark.slow
def test_all_are_waited_for_and_not_longer_than_told(unused):
    with answering() as port, listening() as hung:
        cluster = cluster_at(port)
        cluster["worker"] = [*cluster["worker"], f"127.0.0.1:{hung}"]
        begin = time.monotonic()
        with pytest.raises(TimeoutError, match="No answer from worker 1 at"):
            tfr.distribute.connect(cluster, timeout=2.0)
        # No time is left now.
        with pytest.raises(TimeoutError, match="worker 1.* within 60 seconds"):
            connection._await(
                "worker", 1, cluster["worker"][1], begin + 2.0, timeout=60.0
            )
    assert time.monotonic() - begin < 30.0


def test_a_chief_connects_to_all_and_fails_fast(unused, monkeypatch):
    monkeypatch.setenv("GRPC_FAIL_FAST", "false")
    monkeypatch.delenv("GRPC_FAIL_FAST")

    def strategy(resolver):
        assert os.environ["GRPC_FAIL_FAST"] == "use_caller"
        return resolver

    monkeypatch.setattr(tf.distribute, "ParameterServerStrategy", strategy)
    coordinator = tf.distribute.coordinator
    monkeypatch.setattr(coordinator, "ClusterCoordinator", lambda found: found)
    with answering() as port:
        resolver = tfr.distribute.connect(cluster_at(port))
    assert resolver.cluster_spec().as_dict() == cluster_at(port)
    assert (resolver.task_type, resolver.task_id) == ("chief", 0)
    assert resolver.rpc_layer == "grpc"


def test_a_bad_cluster_is_told(unused):
    with pytest.raises(ValueError, match="must have addresses of the jobs"):
        tfr.distribute.connect({"ps": []})


@pytest.mark.parametrize("timeout", [0, -1.0, "soon", None, float("nan")])
def test_bad_timeouts_are_told(timeout):
    with pytest.raises(ValueError, match="`timeout` must be"):
        tfr.distribute.connect(cluster_at(1), timeout=timeout)


def test_only_a_chief_connects(monkeypatch):
    config = {
        "cluster": cluster_at(1),
        "task": {"type": "worker", "index": 0},
    }
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(ValueError, match="Only the chief connects.*'worker'"):
        tfr.distribute.connect()


def test_connecting_after_tensorflow_was_used_is_refused():
    tf.constant(1)
    with pytest.raises(RuntimeError, match="must be called once, and before"):
        tfr.distribute.connect(cluster_at(1))


@pytest.mark.parametrize("coordinator", ["127.0.0.1:1", 3, object()])
def test_what_is_no_coordinator_is_told(coordinator):
    model = keras.Sequential(
        [keras.Input((1,)), tfr.layers.DenseFlipout(1, num_train_examples=2)]
    )
    with pytest.raises(ValueError, match="`coordinator` must be a.*Received"):
        tfr.refine(
            model,
            np.zeros((2, 1)),
            np.zeros((2, 1)),
            loss="mse",
            coordinator=coordinator,
        )


@pytest.mark.parametrize("num_workers", [0, -1, 1.5, "two"])
def test_bad_numbers_of_workers_are_told(num_workers):
    with pytest.raises(ValueError, match="`num_workers` must be"):
        tfr.distribute.LocalCluster(num_workers)


def run(*command):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("TF_CONFIG", None)
    return subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        env=environment,
    )


@pytest.mark.slow
def test_a_server_says_what_it_wants():
    done = run("tfp_refine.distribute.serve")
    assert done.returncode != 0
    assert "`TF_CONFIG` must be JSON such as" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_program_is_run_as_the_chief_and_its_status_is_given():
    program = (
        "import json, os, sys; "
        "config = json.loads(os.environ['TF_CONFIG']); "
        "print(config['task'], len(config['cluster']['worker'])); "
        "sys.exit(7)"
    )
    done = run(
        "tfp_refine.distribute.local",
        "--num_workers=1",
        "--",
        sys.executable,
        "-c",
        program,
    )
    assert done.returncode == 7
    assert done.stdout == "{'type': 'chief', 'index': 0} 1\n"


_HAS_NAMESPACES = (
    sys.platform == "linux"
    and subprocess.run(["unshare", "--user", "--net", "true"]).returncode == 0
)


@pytest.mark.slow
@pytest.mark.skipif(not _HAS_NAMESPACES, reason="The system has none.")
@pytest.mark.parametrize("allowed", [False, True])
def test_a_cluster_on_this_machine_has_a_network_of_its_own(allowed):
    program = (
        "import os, socket; "
        "print(os.getuid(), os.readlink('/proc/self/ns/net'));"
        "server = socket.create_server(('127.0.0.1', 0)); "
        "socket.create_connection(server.getsockname())"
    )
    flags = ["--allow_all_interfaces"] * allowed
    done = run(
        "tfp_refine.distribute.local", *flags, "--", sys.executable, "-c",
        program,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    user, network = done.stdout.split()
    assert user == str(os.getuid())
    assert (network == os.readlink("/proc/self/ns/net")) == allowed


@pytest.mark.slow
def test_without_a_network_of_its_own_no_cluster_is_started(tmp_path):
    # As on systems that lack it.
    (tmp_path / "ctypes.py").write_text("def CDLL(*_, **__): raise OSError")
    code = (
        "import sys; from tfp_refine.distribute import local; "
        f"sys.path.insert(0, {str(tmp_path)!r}); del sys.modules['ctypes']; "
        "import ctypes; local.ctypes = ctypes; "
        "sys.argv = ['local', '--', 'true']; local.app.run(local.main)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 1
    assert "say so: --allow_all_interfaces" in done.stderr


@pytest.mark.slow
def test_a_program_is_asked_for():
    done = run("tfp_refine.distribute.local")
    assert done.returncode != 0
    assert "Say which program is to run" in done.stderr


@pytest.mark.slow
def test_processes_end_with_the_one_that_holds_their_input(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with tfr.distribute.LocalCluster(1, allow_all_interfaces=True) as cluster:
        for process in cluster._processes.values():
            process.stdin.close()  # as when this process is gone
            assert process.wait(timeout=120) == 0
