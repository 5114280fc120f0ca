"""Defaults of ensembles."""

import inspect

import keras
import numpy as np
import pytest

from tfp_refine import ensembles
from tfp_refine.functional import trajectory

N = 640  # 5 batches of 128


class Stopped(Exception):
    """Raised in place of a training."""


@pytest.fixture
def options(monkeypatch):
    """Returns how a method would train, from its defaults."""

    def stop(name, objective, start, rule, batches, **options):
        raise Stopped(batches, options)

    monkeypatch.setattr(trajectory, "train", stop)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    def find(method):
        with pytest.raises(Stopped) as stopped:
            method(model, np.zeros((N, 2)), np.zeros((N, 1)))
        return stopped.value.args

    return find


def test_a_deep_ensemble(options):
    batches, found = options(ensembles.deep_ensemble)
    assert found["settings"] == {
        "learning_rate_decay": "constant",
        "adversarial_epsilon": None,
    }
    assert batches == (N, 128, False)
    assert (found["steps"], found["learning_rate"]) == (10000, 1e-3)
    parameters = inspect.signature(ensembles.deep_ensemble).parameters
    assert parameters["num_members"].default == 10


def test_swag(options):
    batches, found = options(ensembles.swag)
    assert found["settings"] == {
        "num_snapshots": 40,
        "steps_per_snapshot": 5,
        "momentum": 0.9,
    }
    assert batches == (N, 128, False)
    assert (found["steps"], found["learning_rate"]) == (200, 0.01)
    assert inspect.signature(ensembles.swag).parameters["rank"].default == 20
