"""Processes that serve, but for the serving."""

import json
import os
import socket
import subprocess
import sys

import pytest
import tensorflow as tf
from absl import app
from absl import flags
from absl.testing import flagsaver

from tfp_refine.distribute import serve

CLUSTER = {"chief": ["a:1"], "ps": ["a:2"], "worker": ["b:1", "c:1"]}


@pytest.fixture
def task(monkeypatch):
    """Sets which task this process is."""

    def set_task(job, index):
        task = {"type": job, "index": index}
        config = json.dumps({"cluster": CLUSTER, "task": task})
        monkeypatch.setenv("TF_CONFIG", config)

    return set_task


@pytest.fixture(autouse=True)
def served(monkeypatch):
    """Stub of a server."""
    monkeypatch.setenv("GRPC_FAIL_FAST", "use_caller")
    found = []

    class Server:
        def __init__(self, cluster, **options):
            self._facts = (cluster.as_dict(), options)

        def join(self):
            found.append(self._facts)

    monkeypatch.setattr(tf.distribute, "Server", Server)
    with flagsaver.flagsaver():
        flags.FLAGS(["serve"])
        yield found


@pytest.mark.parametrize(("job", "index"), [("worker", 1), ("ps", 0)])
def test_a_task_serves_as_what_it_is(task, served, job, index):
    task(job, index)
    serve.main(["serve"])
    options = {"job_name": job, "task_index": index, "protocol": "grpc"}
    assert served == [(CLUSTER, options)]


def test_a_chief_does_not_serve(task):
    task("chief", 0)
    with pytest.raises(app.UsageError, match="The chief runs your program"):
        serve.main(["serve"])


def test_other_arguments_are_told(task):
    task("worker", 0)
    with pytest.raises(app.UsageError, match=r"Unexpected arguments: \['x'\]"):
        serve.main(["serve", "x"])


@pytest.mark.slow
def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        own = f"127.0.0.1:{taken.getsockname()[1]}"
        cluster = {"chief": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"]}
        config = {
            "cluster": {**cluster, "worker": [own]},
            "task": {"type": "worker", "index": 0},
        }
        found = subprocess.run(
            [sys.executable, "-m", "tfp_refine.distribute.serve"],
            env=os.environ | {"TF_CONFIG": json.dumps(config)},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert found.returncode != 0
    assert f"at {own}: is the address of this machine" in found.stderr
