import json
import os

import pytest

from tfp_refine.distribute import cluster_spec

CLUSTER = {
    "chief": ["10.0.0.1:5000"],
    "ps": ["10.0.0.1:5001"],
    "worker": ["10.0.0.2:5000", "node3:5000"],
}


def config(**task):
    return json.dumps({"cluster": CLUSTER, "task": task})


def test_a_cluster_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config(type="worker", index=1))
    assert cluster_spec.from_environment() == (CLUSTER, "worker", 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "It is not set"),
        ("", "It is not set"),
        ("{", "must be JSON such as"),
        ("[]", "must be JSON such as"),
        ('{"cluster": {}}', "must be JSON such as"),
        (config(type="worker", index="one"), "must be JSON such as"),
        (config(type="worker", index=2), "must be one of its cluster"),
        (config(type="worker", index=-1), "must be one of its cluster"),
        (config(type="evaluator", index=0), "must be one of its cluster"),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", '
            '"index": 0}}',
            "must have addresses of the jobs",
        ),
    ],
)
def test_bad_environments_are_told(monkeypatch, text, message):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=message):
        cluster_spec.from_environment()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ps": []}, "'ps' must be a list of 'host:port'"),
        ({"worker": "a:1"}, "'worker' must be a list"),
        ({"worker": ["a"]}, "'worker' must be a list"),
        ({"worker": ["a:"]}, "'worker' must be a list"),
        ({"worker": [":5000"]}, "'worker' must be a list"),
        ({"worker": ["a:65536"]}, "'worker' must be a list"),
        ({"worker": ["a:0"]}, "'worker' must be a list"),
        ({"worker": [5000]}, "'worker' must be a list"),
        ({"chief": ["a:1", "b:1"]}, "has one chief"),
        ({"evaluator": ["a:1"]}, "must have addresses of the jobs"),
    ],
)
def test_bad_addresses_are_told(change, message):
    with pytest.raises(ValueError, match=message):
        cluster_spec.check(CLUSTER | change)


@pytest.mark.parametrize("cluster", [None, [], {}, "localhost:1"])
def test_what_is_no_cluster_is_told(cluster):
    with pytest.raises(ValueError, match="must have addresses of the jobs"):
        cluster_spec.check(cluster)


def test_addresses_come_in_lists():
    tuples = {job: tuple(addresses) for job, addresses in CLUSTER.items()}
    assert cluster_spec.check(tuples) == CLUSTER


def test_failing_fast_is_left_to_who_has_decided(monkeypatch):
    monkeypatch.setenv("GRPC_FAIL_FAST", "false")
    cluster_spec.fail_fast()
    assert os.environ["GRPC_FAIL_FAST"] == "false"
    monkeypatch.delenv("GRPC_FAIL_FAST")
    cluster_spec.fail_fast()
    assert os.environ["GRPC_FAIL_FAST"] == "use_caller"
